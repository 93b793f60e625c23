"""The formats that `export` writes: ONNX, programs of torch and safetensors, each described inside."""

from __future__ import annotations

import copy
import hashlib
import io
import logging
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from mptctl.errors import UsageError, first_line
from mptctl.files.output_kinds import OutputKind
from mptctl.machine.facts import require_extra
from mptctl.models.export_meta import KEY, ExportMeta
from mptctl.models.onnx_program import MAX_BYTES, onnx_content
from mptctl.models.programs import tensors_content
from mptctl.names import ExportFormat

# The extra file in which the archive of a program of torch.export says what the program is.
EXTRA = f"extra/{KEY}.json"
# From a content's SHA-256 to what the file says of itself.
Describe = Callable[[str], ExportMeta]
# The beginning of an entry of an ONNX file's metadata with our key, in protobuf (onnx.proto,
# StringStringEntryProto).
_ONNX_ENTRY = b"\n" + bytes([len(KEY)]) + KEY.encode() + b"\x12"
# The same in the header of safetensors, which is JSON without blanks.
_SAFETENSORS_ENTRY = f'"{KEY}":'.encode()
# A safetensors file begins with the length of its header, in so many bytes.
_LENGTH = 8


@dataclass(frozen=True)
class ToWrite:
    """A network that is to be written.

    Attributes:
        model: in evaluation mode, on the CPU.
        size: side of its pictures.
        describe: see `Describe`; it also says whether the preprocessing goes into the graph.
        path: where it goes.
        pictures: (n, 3, S, S) training pictures by which ranges are chosen; then it is rounded to int8.
    """

    model: nn.Module
    size: int
    describe: Describe
    path: Path
    pictures: Tensor | None = None


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


def write_onnx(wanted: ToWrite) -> ExportMeta:
    """Write an ONNX model with any number of pictures.

    Returns:
        What it says of itself.

    Raises:
        UsageError: what writes it is not installed, the network cannot be exported, or it is larger than 2
            GB.
    """
    for package in ("onnx", "onnxscript", "onnxruntime"):
        require_extra(package, "export", "--format onnx")
    model, size = wanted.model, wanted.size
    meta = wanted.describe("")
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
    if wanted.pictures is not None:
        proto = _rounded(proto, wanted.pictures, see, wanted.path.with_name("rounded.onnx"))
    for note in list(proto.metadata_props):
        proto.metadata_props.remove(note)
    if proto.ByteSize() > MAX_BYTES:
        raise UsageError(
            f"--format onnx: {proto.ByteSize() / 1e9:.1f} GB, and ONNX holds 2 GB in a file; use pt2"
        )
    meta = wanted.describe(onnx_content(proto))
    proto.metadata_props.add(key=KEY, value=meta.model_dump_json())
    wanted.path.write_bytes(proto.SerializeToString())
    return meta


def any_number() -> dict[int, Any]:
    """Any number of pictures."""
    return {0: torch.export.Dim("batch", min=1)}


def _rounded(proto: Any, pictures: Tensor, see: Any, path: Path) -> Any:
    """The model in int8, weights by channel; activations take the ranges that they have on the pictures."""
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


def write_pt2(wanted: ToWrite) -> ExportMeta:
    """Write a program that torch.export.load takes; result and errors as of `write_onnx`."""
    packed = io.BytesIO()
    with _quiet("it cannot be written as a program"):
        program = torch.export.export(
            wanted.model.eval(),
            (torch.zeros(2, 3, wanted.size, wanted.size),),
            dynamic_shapes=(any_number(),),
        )
        torch.export.save(program, packed)
    meta = wanted.describe(_members_digest(packed))
    with zipfile.ZipFile(packed, "a") as archive:
        root = archive.namelist()[0].partition("/")[0]
        archive.writestr(f"{root}/{EXTRA}", meta.model_dump_json())
    wanted.path.write_bytes(packed.getvalue())
    return meta


def _members_digest(packed: io.BytesIO) -> str:
    """SHA-256 of an archive's members with their names and sizes, in hexadecimal."""
    state = hashlib.sha256()
    with zipfile.ZipFile(packed) as archive:
        names = {info.filename.partition("/")[2]: info for info in archive.infolist()}
        for name in sorted(names):
            state.update(f"{name}\0{names[name].file_size}\0".encode())
            state.update(archive.read(names[name]))
    return state.hexdigest()


def write_safetensors(wanted: ToWrite) -> ExportMeta:
    """Write a state dict; result and errors as of `write_onnx`."""
    require_extra("safetensors", "export", "--format safetensors")
    from safetensors.torch import save_file

    state = {key: tensor.contiguous().clone() for key, tensor in wanted.model.state_dict().items()}
    meta = wanted.describe(tensors_content(state))
    save_file(state, str(wanted.path), metadata={KEY: meta.model_dump_json()})
    return meta


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


def _is_our_onnx(path: Path) -> bool:
    return _ONNX_ENTRY in path.read_bytes()


def _is_our_pt2(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith(f"/{EXTRA}") for name in archive.namelist())
    except zipfile.BadZipFile:
        return False


def _is_our_safetensors(path: Path) -> bool:
    content = path.read_bytes()
    header = int.from_bytes(content[:_LENGTH], "little")
    return _SAFETENSORS_ENTRY in content[_LENGTH : _LENGTH + header]


@dataclass(frozen=True)
class FileFormat:
    """A format that `export` writes.

    Attributes:
        write: writes a file, and returns what it says of itself.
        is_ours: tells whether a file says of itself that `export` wrote it; OSError where it cannot be read.
        load: makes the network of what was written, of a format that is not read back; else None.
    """

    write: Callable[[ToWrite], ExportMeta]
    is_ours: Callable[[Path], bool]
    load: Callable[[bytes], nn.Module] | None = None


FORMATS: dict[ExportFormat, FileFormat] = {
    "onnx": FileFormat(write_onnx, _is_our_onnx),
    "pt2": FileFormat(write_pt2, _is_our_pt2, WrittenProgram),
    "safetensors": FileFormat(write_safetensors, _is_our_safetensors),
}


def export_kind(form: ExportFormat) -> OutputKind:
    """The kind of output by which an earlier export of a format is known, so that it may be replaced."""
    return OutputKind("exported model", FORMATS[form].is_ours)


def _is_description(path: Path) -> bool:
    try:
        ExportMeta.model_validate_json(path.read_bytes())
    except ValidationError:
        return False
    return True


DESCRIPTION = OutputKind("description of an exported model", _is_description)
