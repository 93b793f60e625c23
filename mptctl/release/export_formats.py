"""Write the formats of `export`: ONNX and safetensors, each with a description inside."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from mptctl.errors import UsageError, first_line
from mptctl.machine.facts import require_extra
from mptctl.models.export_meta import KEY, ExportMeta
from mptctl.models.onnx_program import MAX_BYTES, onnx_digest
from mptctl.models.programs import tensors_digest
from mptctl.names import ExportFormat


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
        mean_by_channel = torch.tensor(mean, dtype=torch.float32).reshape(3, 1, 1)
        std_by_channel = torch.tensor(std, dtype=torch.float32).reshape(3, 1, 1)
        self.register_buffer("offset", -mean_by_channel / std_by_channel)
        self.register_buffer("scale", 1 / (255 * std_by_channel))

    def forward(self, pictures: Tensor) -> Tensor:
        """Compute the logits (B, C) of pictures (B, S, S, 3) uint8."""
        images = pictures.permute(0, 3, 1, 2).to(torch.float32) * self.scale + self.offset
        logits: Tensor = self.model(images)
        return logits


def write_onnx(model: nn.Module, meta: ExportMeta, path: Path) -> ExportMeta:
    """Write an ONNX model that takes batches of any size, and return the description inside it.

    Args:
        model: in evaluation mode, on the CPU.
        meta: the description without the digest of the file's content; it also says whether normalisation is
            part of the graph.
        path: of the file.

    Raises:
        UsageError: a package of ONNX is not installed, or the network cannot be exported or is larger than
            2 GB.
    """
    for package in ("onnx", "onnxscript", "onnxruntime"):
        require_extra(package, "export", "--format onnx")
    preprocessing = meta.preprocessing
    size = preprocessing.crop
    if preprocessing.inside:
        model = WithNormalisation(model, preprocessing.mean, preprocessing.std)
        example = torch.zeros(2, size, size, 3, dtype=torch.uint8)
    else:
        example = torch.zeros(2, 3, size, size)
    with _onnx_errors_in_one_line():
        program = torch.onnx.export(
            model.eval(), (example,), dynamo=True, input_names=["images"], output_names=["logits"],
            dynamic_shapes=({0: torch.export.Dim("batch", min=1)},), verbose=False,
        )  # fmt: skip
        assert program is not None
        proto = program.model_proto
    # The description is to be the only metadata.
    for note in list(proto.metadata_props):
        proto.metadata_props.remove(note)
    if proto.ByteSize() > MAX_BYTES:
        raise UsageError(
            f"--format onnx: {proto.ByteSize() / 1e9:.1f} GB, and ONNX holds 2 GB in a file; use safetensors"
        )
    meta = meta.model_copy(update={"content": onnx_digest(proto)})
    proto.metadata_props.add(key=KEY, value=meta.model_dump_json())
    path.write_bytes(proto.SerializeToString())
    return meta


def write_safetensors(model: nn.Module, meta: ExportMeta, path: Path) -> ExportMeta:
    """Write the state dict of a network, and return the description inside the file.

    Args:
        model, meta, path: as for `write_onnx`.

    Raises:
        UsageError: safetensors is not installed.
    """
    require_extra("safetensors", "export", "--format safetensors")
    from safetensors.torch import save_file

    state = {key: tensor.contiguous().clone() for key, tensor in model.state_dict().items()}
    meta = meta.model_copy(update={"content": tensors_digest(state)})
    save_file(state, str(path), metadata={KEY: meta.model_dump_json()})
    return meta


@contextmanager
def _onnx_errors_in_one_line() -> Iterator[None]:
    """Silence logs and warnings of the exporter, and raise any error of it as a UsageError of one line."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:  # it raises many kinds for what it does not know
        raise UsageError(
            f"it cannot be written as ONNX: {first_line(error)[:200]}; choose another --format"
        ) from error
    finally:
        logging.disable(before)


WRITERS: dict[ExportFormat, Callable[[nn.Module, ExportMeta, Path], ExportMeta]] = {
    "onnx": write_onnx,
    "safetensors": write_safetensors,
}
