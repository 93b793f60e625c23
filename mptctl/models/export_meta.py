"""The description of an exported model: inside its file, and as JSON beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from mptctl.errors import CheckpointError, one_line
from mptctl.files import Model
from mptctl.names import Quantization
from mptctl.recipe import Recipe
from mptctl.recipe.data import Interpolation
from mptctl.recipe.validation import validate_recipe

# The key of a file's metadata, or the name in its archive, that holds the description.
KEY = "mptctl"


class Preprocessing(Model):
    """From a decoded RGB picture to what the model takes."""

    resize: int = Field(
        description="shorter side after resizing, in pixels: with antialiasing, as torchvision"
    )
    interpolation: Interpolation = Field("bilinear", description="of the resizing")
    crop: int = Field(description="side of the square that is cut from the centre, in pixels")
    mean: tuple[float, float, float] = Field(
        description="subtracted from each channel, red first, in 0..1 (grey level / 255)"
    )
    std: tuple[float, float, float] = Field(description="each channel is divided by it afterwards")
    inside: bool = Field(
        description="mean, std and the order of dimensions are in the graph: it takes (B, crop, crop, 3) "
        "uint8; else (B, 3, crop, crop) float32"
    )

    def recipe_keys(self) -> dict[str, Any]:
        """Keys of a recipe's group `data` by which pictures become what the model takes."""
        return {
            "image_size": self.crop,
            "interpolation": self.interpolation,
            "eval_resize": self.resize,
            "mean": list(self.mean),
            "std": list(self.std),
        }


class ExportMeta(Model):
    """The description of an exported model by itself."""

    schema_version: Literal[1] = Field(1, description="of this object")
    class_names: tuple[str, ...] = Field(description="in the order of the logits")
    num_old: int = Field(description="how many of them are old classes")
    split_fingerprint: str | None = Field(
        description="of the split that it was trained on; null where unknown"
    )
    checkpoint: str = Field(description="digest of the checkpoint that it was made from")
    preprocessing: Preprocessing = Field(description="what becomes of a picture before the model")
    model: dict[str, Any] = Field(description="the recipe's group of that name")
    quantized: Quantization | None = Field(None, description="to what its numbers were rounded")
    content: str = Field(description="SHA-256 of the rest of the file, in hexadecimal")

    def recipe(self, arch: str | None = None) -> Recipe:
        """A recipe with this model's pictures, and its network or another architecture."""
        data = self.preprocessing.recipe_keys()
        model = self.model if arch is None else {"arch": arch}
        return validate_recipe({"data": data, "model": model}, "an exported model")


def parse_export_meta(text: str | None, path: Path) -> ExportMeta | None:
    """Parse the description in an exported file; None where there is none.

    Args:
        text: JSON from inside the file; None where there is none.
        path: of the file; the JSON file beside it must say the same.

    Raises:
        CheckpointError: it is damaged, or the file beside it differs.
    """
    if text is None:
        return None
    try:
        meta = ExportMeta.model_validate_json(text)
        beside = sidecar(path)
        same = not beside.is_file() or ExportMeta.model_validate_json(beside.read_bytes()) == meta
    except (ValidationError, OSError) as error:
        raise CheckpointError(
            f"{path}: damaged: what it says of itself cannot be read ({one_line(error)[:120]}); export it "
            "again"
        ) from error
    if not same:
        raise CheckpointError(
            f"{path}: changed since it was exported: {beside.name} beside it says something else; export it "
            "again"
        )
    return meta


def refuse_torch_program(form: str, where: str) -> None:
    """Raise CheckpointError of a program of torch.export: its loader runs what is in the file.

    Args:
        form: suffix of the file, or what stands for the architecture.
        where: what to call it in a message.
    """
    if form.lower().removeprefix(".") == "pt2":
        raise CheckpointError(
            f"{where}: is a program of torch.export (.pt2), which is written and not read; name the model "
            "as ONNX (mptctl export --format onnx), or its predictions"
        )


def refuse_changed(meta: ExportMeta, content: str, path: Path) -> None:
    """Raise CheckpointError where the content's SHA-256 is not the one that the file names."""
    if meta.content != content:
        raise CheckpointError(
            f"{path}: changed since it was exported: digest expected {meta.content[:16]}, found "
            f"{content[:16]}; export it again"
        )


def sidecar(path: Path) -> Path:
    """The JSON file beside an exported model."""
    return path.with_name(f"{path.name}.json")
