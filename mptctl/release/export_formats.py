"""A network written as ONNX, as a program of torch or as safetensors, with what it says of itself inside."""

from __future__ import annotations

import copy
import hashlib
import io
import logging
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from mptctl.errors import UsageError, first_line
from mptctl.machine.facts import require_extra
from mptctl.models.export_meta import KEY, ExportMeta
from mptctl.models.onnx_program import LARGEST, onnx_content
from mptctl.models.safetensors_file import tensors_content

# What a program of torch.export says of itself, as an extra file of its archive.
EXTRA = f"extra/{KEY}.json"
# From a content's SHA-256 to what the file says of itself.
Describe = Callable[[str], ExportMeta]


class WithNormalisation(nn.Module):
    """A network that takes pictures as they are decoded; it computes as the loaders' normalisation does.

    Args:
        model: of normalised pictures.
        mean, std: of each channel, in 0..1.
    """

    offset: Tensor
    scale: Tensor

    def __init__(self, model: nn.Module, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.model = model
        mean_, std_ = (torch.tensor(values, dtype=torch.float32).reshape(3, 1, 1) for values in (mean, std))
        self.register_buffer("offset", -mean_ / std_)
        self.register_buffer("scale", 1 / (255 * std_))

    def forward(self, pictures: Tensor) -> Tensor:
        """pictures: (B, S, S, 3) uint8 -> (B, C)."""
        images = pictures.permute(0, 3, 1, 2).to(torch.float32) * self.scale + self.offset
        logits: Tensor = self.model(images)
        return logits


class InHalf(nn.Module):
    """A network in half precision that takes and gives single precision.

    Args:
        model: a copy of it is rounded.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).half()

    def forward(self, images: Tensor) -> Tensor:
        """images: (B, 3, S, S) -> (B, C) float32."""
        logits: Tensor = self.model(images.half()).float()
        return logits


def write_onnx(model: nn.Module, size: int, describe: Describe, path: Path, pictures: Tensor | None) -> None:
    """Write an ONNX model with any number of pictures.

    Args:
        model: in evaluation mode, on the CPU.
        size: side of its pictures.
        describe: see `Describe`; it also says whether the preprocessing goes into the graph.
        path: where it goes.
        pictures: (n, 3, S, S) training pictures by which ranges are chosen; then it is rounded to int8.

    Raises:
        UsageError: what writes it is not installed, the network cannot be exported, or it is larger than 2 GB.
    """
    for package in ("onnx", "onnxscript", "onnxruntime"):
        require_extra(package, "export", "--format onnx")
    meta = describe("")
    see = meta.preprocessing
    if meta.quantized == "fp16":
        model = InHalf(model)
    example = torch.zeros(2, 3, size, size)
    if see.inside:
        model, example = (
            WithNormalisation(model, see.mean, see.std),
            torch.zeros(2, size, size, 3, dtype=torch.uint8),
        )
    with _quiet("it cannot be written as ONNX"):
        program = torch.onnx.export(
            model.eval(), (example,), dynamo=True, dynamic_shapes=(any_number(),), input_names=["images"],
            output_names=["logits"], verbose=False,
        )  # fmt: skip
        assert program is not None
        proto = program.model_proto
    if pictures is not None:
        proto = _rounded(proto, pictures, see, path.with_name("rounded.onnx"))
    for note in list(proto.metadata_props):
        proto.metadata_props.remove(note)
    if proto.ByteSize() > LARGEST:
        raise UsageError(
            f"--format onnx: {proto.ByteSize() / 1e9:.1f} GB, and ONNX holds 2 GB in a file; use pt2"
        )
    meta = describe(onnx_content(proto))
    proto.metadata_props.add(key=KEY, value=meta.model_dump_json())
    path.write_bytes(proto.SerializeToString())


def any_number() -> dict[int, Any]:
    """Any number of pictures."""
    return {0: torch.export.Dim("batch", min=1)}


def _rounded(proto: Any, pictures: Tensor, see: Any, path: Path) -> Any:
    """The model in int8, weights by channel; the ranges of what lies between are those that the pictures have."""
    import onnx
    from onnxruntime import quantization as ort

    given = pictures
    if see.inside:
        levels = pictures.permute(0, 2, 3, 1) * torch.tensor(see.std) + torch.tensor(see.mean)
        given = (levels * 255).round().clamp(0, 255).to(torch.uint8)

    class Pictures(ort.CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types
        def __init__(self) -> None:
            self.left: Iterator[Tensor] = (given[row : row + 32] for row in range(0, len(given), 32))

        def get_next(self) -> dict[str, Any] | None:
            batch = next(self.left, None)
            return None if batch is None else {"images": batch.contiguous().numpy()}

    with _quiet("it cannot be rounded to int8"):
        ort.quantize_static(
            proto, str(path), Pictures(), quant_format=ort.QuantFormat.QDQ, per_channel=True,
            activation_type=ort.QuantType.QInt8, weight_type=ort.QuantType.QInt8,
        )  # fmt: skip
    return onnx.load(str(path))


class WrittenProgram(nn.Module):
    """The network that torch.export.load makes of a program that this process wrote.

    Args:
        content: the program; of another process it could run code.
    """

    def __init__(self, content: bytes) -> None:
        super().__init__()
        with warnings.catch_warnings():
            # torch 2.11 reads weights as views of the bytes; nothing writes to them.
            warnings.filterwarnings("ignore", "The given buffer is not writable", UserWarning)
            self.program = torch.export.load(io.BytesIO(content)).module()

    def train(self, mode: bool = True) -> Self:
        """A program is always as it was exported; torch refuses to change it."""
        self.training = False
        return self

    def forward(self, images: Tensor) -> Tensor:
        """images: (B, 3, S, S), normalised -> (B, C)."""
        logits: Tensor = self.program(images.contiguous())
        return logits


def write_pt2(model: nn.Module, size: int, describe: Describe, path: Path) -> tuple[bytes, ExportMeta]:
    """Write a program that torch.export.load takes; arguments and errors as `write_onnx`.

    Returns:
        What was written, and what it says of itself.
    """
    packed = io.BytesIO()
    with _quiet("it cannot be written as a program"):
        program = torch.export.export(
            model.eval(), (torch.zeros(2, 3, size, size),), dynamic_shapes=(any_number(),)
        )
        torch.export.save(program, packed)
    meta = describe(_members_digest(packed))
    with zipfile.ZipFile(packed, "a") as archive:
        root = archive.namelist()[0].partition("/")[0]
        archive.writestr(f"{root}/{EXTRA}", meta.model_dump_json())
    path.write_bytes(packed.getvalue())
    return packed.getvalue(), meta


def _members_digest(packed: io.BytesIO) -> str:
    """SHA-256 of an archive's members with their names and sizes, in hexadecimal."""
    state = hashlib.sha256()
    with zipfile.ZipFile(packed) as archive:
        names = {info.filename.partition("/")[2]: info for info in archive.infolist()}
        for name in sorted(names):
            state.update(f"{name}\0{names[name].file_size}\0".encode())
            state.update(archive.read(names[name]))
    return state.hexdigest()


def write_safetensors(model: nn.Module, describe: Describe, path: Path) -> None:
    """Write a state dict; arguments and errors as `write_onnx`."""
    require_extra("safetensors", "export", "--format safetensors")
    from safetensors.torch import save_file

    state = {key: tensor.contiguous().clone() for key, tensor in model.state_dict().items()}
    save_file(state, str(path), metadata={KEY: describe(tensors_content(state)).model_dump_json()})


@contextmanager
def _quiet(what: str) -> Iterator[None]:
    """Without the notes of exporters; what they cannot do is one line."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:  # exporters raise many kinds for what they do not know
        raise UsageError(f"{what}: {first_line(error)[:200]}; choose another --format") from error
    finally:
        logging.disable(before)
