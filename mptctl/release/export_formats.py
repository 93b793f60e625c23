"""Write the formats of `export`: ONNX, programs of torch and safetensors, each with a description inside."""

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
from mptctl.models.export_meta import KEY, ExportMeta, Preprocessing
from mptctl.models.onnx_program import MAX_BYTES, onnx_digest
from mptctl.models.programs import tensors_digest
from mptctl.names import ExportFormat

# The file with the description in the archive of a torch.export program.
EXTRA = f"extra/{KEY}.json"
# Makes the description of a file from the SHA-256 of its content.
Describe = Callable[[str], ExportMeta]
# How the description begins in the bytes of an ONNX file: an entry of metadata with our key, in protobuf
# (onnx.proto, StringStringEntryProto).
_ONNX_ENTRY = b"\n" + bytes([len(KEY)]) + KEY.encode() + b"\x12"
# How it begins in the header of a safetensors file, which is JSON without blanks.
_SAFETENSORS_ENTRY = f'"{KEY}":'.encode()
# Bytes at the beginning of a safetensors file that give the length of its header.
_LENGTH = 8
# Pictures in a batch while int8 takes its ranges.
_BATCH = 32


@dataclass(frozen=True)
class ToWrite:
    """A network to be written to a file.

    Attributes:
        model: in evaluation mode, on the CPU.
        size: S, side of its pictures in pixels.
        describe: makes the description, which also says whether normalisation is part of the graph.
        path: of the file.
        pictures: (n, 3, S, S) normalised training pictures, from which int8 takes its ranges; None: the
            network is not rounded to int8.
    """

    model: nn.Module
    size: int
    describe: Describe
    path: Path
    pictures: Tensor | None = None


class WithNormalisation(nn.Module):
    """A network that takes decoded pictures and normalises them as the loaders do.

    Args:
        model: takes normalised pictures.
        mean: of each channel, 0 to 1.
        std: standard deviation of each channel, in the same unit.
    """

    offset: Tensor
    scale: Tensor

    def __init__(self, model: nn.Module, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.model = model
        mean_by_channel, std_by_channel = (
            torch.tensor(values, dtype=torch.float32).reshape(3, 1, 1) for values in (mean, std)
        )
        self.register_buffer("offset", -mean_by_channel / std_by_channel)
        self.register_buffer("scale", 1 / (255 * std_by_channel))

    def forward(self, pictures: Tensor) -> Tensor:
        """Compute the logits (B, C) of pictures (B, S, S, 3) uint8."""
        images = pictures.permute(0, 3, 1, 2).to(torch.float32) * self.scale + self.offset
        logits: Tensor = self.model(images)
        return logits


class InHalf(nn.Module):
    """A copy of a network in half precision; inputs and outputs are in single precision.

    Args:
        model: stays as it is.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).half()

    def forward(self, images: Tensor) -> Tensor:
        """Compute the logits (B, C) float32 of normalised images (B, 3, S, S)."""
        logits: Tensor = self.model(images.half()).float()
        return logits


def write_onnx(wanted: ToWrite) -> ExportMeta:
    """Write an ONNX model that takes batches of any size, and return the description inside it.

    Raises:
        UsageError: a package of ONNX is not installed, or the network cannot be exported or is larger than
            2 GB.
    """
    for package in ("onnx", "onnxscript", "onnxruntime"):
        require_extra(package, "export", "--format onnx")
    model, size = wanted.model, wanted.size
    meta = wanted.describe("")
    preprocessing = meta.preprocessing
    if meta.quantized == "fp16":
        model = InHalf(model)
    example = torch.zeros(2, 3, size, size)
    if preprocessing.inside:
        model = WithNormalisation(model, preprocessing.mean, preprocessing.std)
        example = torch.zeros(2, size, size, 3, dtype=torch.uint8)
    with _exporting("it cannot be written as ONNX"):
        program = torch.onnx.export(
            model.eval(), (example,), dynamo=True, dynamic_shapes=(any_batch_size(),), input_names=["images"],
            output_names=["logits"], verbose=False,
        )  # fmt: skip
        assert program is not None
        proto = program.model_proto
    if wanted.pictures is not None:
        scratch = wanted.path.with_name("rounded.onnx")
        proto = _round_to_int8(proto, wanted.pictures, preprocessing, scratch)
    # The description is to be the only metadata.
    for note in list(proto.metadata_props):
        proto.metadata_props.remove(note)
    if proto.ByteSize() > MAX_BYTES:
        raise UsageError(
            f"--format onnx: {proto.ByteSize() / 1e9:.1f} GB, and ONNX holds 2 GB in a file; use pt2"
        )
    meta = wanted.describe(onnx_digest(proto))
    proto.metadata_props.add(key=KEY, value=meta.model_dump_json())
    wanted.path.write_bytes(proto.SerializeToString())
    return meta


def any_batch_size() -> dict[int, Any]:
    """Dynamic shape of an input whose first dimension, the batch, has any size from 1 on."""
    return {0: torch.export.Dim("batch", min=1)}


def _round_to_int8(proto: Any, pictures: Tensor, preprocessing: Preprocessing, path: Path) -> Any:
    """Round an ONNX model to int8: weights by channel, activations by their ranges on pictures.

    Args:
        proto: the model.
        pictures: (n, 3, S, S), normalised.
        preprocessing: says whether the model takes uint8 pictures instead, which are then made of these.
        path: of a scratch file for the result, which onnxruntime does not return.

    Returns:
        The rounded model.

    Raises:
        UsageError: onnxruntime cannot round it.
    """
    import onnx
    from onnxruntime import quantization as ort

    inputs = pictures
    if preprocessing.inside:
        mean, std = torch.tensor(preprocessing.mean), torch.tensor(preprocessing.std)
        levels = pictures.permute(0, 2, 3, 1) * std + mean
        inputs = (levels * 255).round().clamp(0, 255).to(torch.uint8)

    class BatchReader(ort.CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types
        def __init__(self) -> None:
            self.batches = iter(inputs.split(_BATCH))

        def get_next(self) -> dict[str, Any] | None:
            batch = next(self.batches, None)
            return None if batch is None else {"images": batch.contiguous().numpy()}

    with _exporting("it cannot be rounded to int8"):
        ort.quantize_static(
            proto, str(path), BatchReader(), quant_format=ort.QuantFormat.QDQ, per_channel=True,
            activation_type=ort.QuantType.QInt8, weight_type=ort.QuantType.QInt8,
        )  # fmt: skip
    return onnx.load(str(path))


class WrittenProgram(nn.Module):
    """The network of a torch.export program that this process wrote.

    Args:
        content: bytes of the program. Loading one from elsewhere could run code in it.
    """

    def __init__(self, content: bytes) -> None:
        super().__init__()
        with warnings.catch_warnings():
            # torch 2.11 reads weights as views of the bytes; nothing writes to them.
            warnings.filterwarnings("ignore", "The given buffer is not writable", UserWarning)
            self.program = torch.export.load(io.BytesIO(content)).module()

    def train(self, mode: bool = True) -> Self:
        """Stay in evaluation mode, as the program was exported: torch refuses to change it."""
        self.training = False
        return self

    def forward(self, images: Tensor) -> Tensor:
        """Compute the logits (B, C) of normalised images (B, 3, S, S)."""
        logits: Tensor = self.program(images.contiguous())
        return logits


def write_pt2(wanted: ToWrite) -> ExportMeta:
    """Write a program for torch.export.load, and return the description inside it.

    Raises:
        UsageError: the network cannot be exported.
    """
    packed = io.BytesIO()
    with _exporting("it cannot be written as a program"):
        program = torch.export.export(
            wanted.model.eval(),
            (torch.zeros(2, 3, wanted.size, wanted.size),),
            dynamic_shapes=(any_batch_size(),),
        )
        torch.export.save(program, packed)
    meta = wanted.describe(_members_digest(packed))
    with zipfile.ZipFile(packed, "a") as archive:
        root = archive.namelist()[0].partition("/")[0]
        archive.writestr(f"{root}/{EXTRA}", meta.model_dump_json())
    wanted.path.write_bytes(packed.getvalue())
    return meta


def _members_digest(packed: io.BytesIO) -> str:
    """SHA-256, hexadecimal, of the members of an archive with their sizes and names below its root folder."""
    digest = hashlib.sha256()
    with zipfile.ZipFile(packed) as archive:
        members = {info.filename.partition("/")[2]: info for info in archive.infolist()}
        for name in sorted(members):
            digest.update(f"{name}\0{members[name].file_size}\0".encode())
            digest.update(archive.read(members[name]))
    return digest.hexdigest()


def write_safetensors(wanted: ToWrite) -> ExportMeta:
    """Write the state dict of a network, and return the description inside the file.

    Raises:
        UsageError: safetensors is not installed.
    """
    require_extra("safetensors", "export", "--format safetensors")
    from safetensors.torch import save_file

    state = {key: tensor.contiguous().clone() for key, tensor in wanted.model.state_dict().items()}
    meta = wanted.describe(tensors_digest(state))
    save_file(state, str(wanted.path), metadata={KEY: meta.model_dump_json()})
    return meta


@contextmanager
def _exporting(problem: str) -> Iterator[None]:
    """Silence logs and warnings of an exporter, and raise any error of it as a UsageError of one line.

    Args:
        problem: the line begins with it.
    """
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:  # exporters raise many kinds for what they do not know
        raise UsageError(f"{problem}: {first_line(error)[:200]}; choose another --format") from error
    finally:
        logging.disable(before)


def _is_our_onnx(path: Path) -> bool:
    """Whether an ONNX file contains our description."""
    return _ONNX_ENTRY in path.read_bytes()


def _is_our_pt2(path: Path) -> bool:
    """Whether a torch.export program contains our description; False for a file that is no archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith(f"/{EXTRA}") for name in archive.namelist())
    except zipfile.BadZipFile:
        return False


def _is_our_safetensors(path: Path) -> bool:
    """Whether the header of a safetensors file contains our description."""
    content = path.read_bytes()
    header = int.from_bytes(content[:_LENGTH], "little")
    return _SAFETENSORS_ENTRY in content[_LENGTH : _LENGTH + header]


@dataclass(frozen=True)
class FileFormat:
    """A format of `export`.

    Attributes:
        write: writes a file, and returns the description inside it.
        is_ours: whether `export` wrote a file, by the description inside it; raises OSError for a file that
            cannot be read.
        load: makes the network from the bytes of a file; None for a format that `load_checkpoint` reads.
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
    """The kind of output that an export of a format is: a file of this kind may be replaced."""
    return OutputKind("exported model", FORMATS[form].is_ours)


def _is_description(path: Path) -> bool:
    """Whether a file is the JSON description beside an export."""
    try:
        ExportMeta.model_validate_json(path.read_bytes())
    except ValidationError:
        return False
    return True


DESCRIPTION = OutputKind("description of an exported model", _is_description)
