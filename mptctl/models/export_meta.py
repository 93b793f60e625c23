"""The description of an exported model: stored inside its file, and as JSON beside the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from mptctl.errors import CheckpointError, one_line
from mptctl.files import Model
from mptctl.recipe import Recipe
from mptctl.recipe.data import Exif, Interpolation
from mptctl.recipe.validation import validate_recipe

# Key under which an exported file's metadata hold the description; in an archive, the entry's name.
KEY = "mptctl"


class Preprocessing(Model):
    """The steps from a decoded RGB picture to the model's input: rotation, resizing, crop, normalisation."""

    exif: Exif = Field("ignore", description="rotation in a picture's EXIF data: ignored, or applied")
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
        """The same preprocessing as keys of a recipe's group `data`."""
        return {
            "exif": self.exif,
            "image_size": self.crop,
            "interpolation": self.interpolation,
            "eval_resize": self.resize,
            "mean": list(self.mean),
            "std": list(self.std),
        }


class ExportMeta(Model):
    """The description that an exported model's file carries."""

    schema_version: Literal[1] = Field(1, description="of this object")
    class_names: tuple[str, ...] = Field(description="in the order of the logits")
    num_old: int = Field(description="number of old classes among class_names")
    split_fingerprint: str | None = Field(
        description="of the split that the model was trained on; null where unknown"
    )
    checkpoint: str = Field(description="digest of the exported checkpoint")
    preprocessing: Preprocessing = Field(description="from a decoded picture to the model's input")
    model: dict[str, Any] = Field(description="the recipe's group `model`")
    content: str = Field(description="SHA-256 of the rest of the file, in hexadecimal")

    def recipe(self, arch: str | None = None) -> Recipe:
        """A recipe with this model's preprocessing and network.

        Args:
            arch: architecture to name instead of the model's own network; None: the model's own.
        """
        model = self.model if arch is None else {"arch": arch}
        return validate_recipe(
            {"data": self.preprocessing.recipe_keys(), "model": model}, "an exported model"
        )


class ChangedExportError(CheckpointError):
    """An exported file whose content is no longer what `export` wrote."""


def parse_export_meta(
    text: str | None, path: Path, digest: Callable[[], str], *, allow_changed: bool = False
) -> ExportMeta | None:
    """Parse the description in an exported file, and compare it with the file and the JSON file beside it.

    Args:
        text: the description as JSON; None where the file has none.
        path: of the exported file; a missing JSON file beside it is not an error.
        digest: returns the SHA-256 of the rest of the file as it is now, in hexadecimal.
        allow_changed: take the description of a changed file, too.

    Returns:
        The description; None if ``text`` is None.

    Raises:
        CheckpointError: the description is damaged.
        ChangedExportError: the file was changed.
    """
    if text is None:
        return None
    try:
        meta = ExportMeta.model_validate_json(text)
    except ValidationError as error:
        raise CheckpointError(
            f"{path}: damaged: what it says of itself cannot be read ({one_line(error)[:120]}); export it "
            "again"
        ) from error
    if not allow_changed and meta.content != (found := digest()):
        way = ", or import it with --class-names if a tool changed it" if path.suffix == ".onnx" else ""
        raise ChangedExportError(
            f"{path}: changed since it was exported: digest expected {meta.content[:16]}, found "
            f"{found[:16]}; export it again{way}"
        )
    return meta


def sidecar_path(path: Path) -> Path:
    """The path of the JSON file beside an exported model: ``NAME.onnx.json`` for ``NAME.onnx``."""
    return path.with_name(f"{path.name}.json")
