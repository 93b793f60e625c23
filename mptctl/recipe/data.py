"""The recipe's group `data`: size, augmentation and normalisation of pictures, and the loader."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, PositiveInt, field_validator, model_validator

from mptctl.names import LoaderName
from mptctl.recipe.criterion import Group
from mptctl.recipe.transforms import GaussianBlur, Step, read_steps

# Marks of a recipe's keys. The key changes only how fast a run is.
SPEED: dict[str, Any] = {"changes": "speed"}
# The key changes speed, and the last bits of results.
ROUNDING: dict[str, Any] = {"changes": "rounding"}
# DALI's own default (NVIDIA/DALI, pull request 6366), until `mptctl bench loader` on a GPU has found
# another.
HW_DECODER_LOAD = 0.65
# The key changes pictures in training only, not in evaluation.
TRAINING: dict[str, Any] = {"changes": "training pictures"}


Interpolation = Literal["bilinear", "bicubic"]
Exif = Literal["ignore", "apply"]
# Largest side of a JPEG, in pixels (ITU-T T.81, B.2.2).
LARGEST_SIDE = 65_535


class DataRecipe(Group):
    """The model's pictures: size, augmentation, normalisation and the loader."""

    image_size: PositiveInt = Field(
        32, le=LARGEST_SIDE, description="side of the square that the model sees, in pixels"
    )
    augment: Literal["pad-crop", "random-resized-crop", "none"] = Field(
        "pad-crop",
        description="training crop: zero padding and a crop of the same size, or a random part resized",
        json_schema_extra=TRAINING,
    )
    padding: int = Field(
        4, ge=0, description="pixels of zero padding on each side, for pad-crop", json_schema_extra=TRAINING
    )
    flip: bool = Field(
        True, description="mirror half of the training pictures left to right", json_schema_extra=TRAINING
    )
    scale: tuple[float, float] = Field(
        (0.08, 1.0), description="part of the area, for random-resized-crop", json_schema_extra=TRAINING
    )
    ratio: tuple[float, float] = Field(
        (0.75, 4 / 3), description="aspect ratios, for random-resized-crop", json_schema_extra=TRAINING
    )
    transforms: tuple[Step, ...] = Field(
        (),
        description="steps after crop and flip, in order, each a mapping of its name and parameters; "
        "random-erasing is done after normalisation",
        json_schema_extra=TRAINING,
    )
    interpolation: Interpolation = Field(
        "bilinear", description="how pictures are resized, in training and evaluation"
    )
    sampling: Literal["none", "balanced", "sqrt"] = Field(
        "none",
        description="how often an epoch draws a class: by its number of pictures, equally often, or by the "
        "square root of its number; an epoch has as many draws as pictures",
        json_schema_extra=TRAINING,
    )
    mixup: float = Field(
        0.0,
        ge=0,
        le=100,
        description="MixUp: lambda of a pair is drawn from Beta(mixup, mixup); 0: no MixUp; together with "
        "cutmix, half of the pairs each",
        json_schema_extra=TRAINING,
    )
    cutmix: float = Field(
        0.0, ge=0, le=100, description="CutMix: lambda, drawn as for mixup", json_schema_extra=TRAINING
    )
    mix_probability: float = Field(
        1.0, gt=0, le=1, description="part of the pairs that are mixed", json_schema_extra=TRAINING
    )
    eval_resize: PositiveInt | None = Field(
        None, description="shorter side before the centre crop in evaluation, in pixels; default: image_size"
    )
    mean: tuple[float, float, float] = Field(
        (0.485, 0.456, 0.406), description="mean of each channel, in 0..1"
    )
    std: tuple[float, float, float] = Field(
        (0.229, 0.224, 0.225), description="deviation of each channel, in 0..1"
    )
    exif: Exif = Field(
        "ignore",
        description="rotation in a picture's EXIF data: ignore it, as torchvision's ImageFolder does, or "
        "apply it, as Pillow's exif_transpose does",
    )
    loader: LoaderName = Field(
        "auto",
        description="how pictures reach the device; auto chooses by size, device and installed packages",
        json_schema_extra=SPEED,
    )
    threads: int = Field(
        0,
        ge=0,
        description="threads of the loader; 0: one for each usable core, at most 8 where `threaded` reads",
        json_schema_extra=SPEED,
    )
    prefetch: PositiveInt = Field(2, description="batches that are prepared ahead", json_schema_extra=SPEED)
    hw_decoder_load: float = Field(
        HW_DECODER_LOAD,
        ge=0.0,
        le=1.0,
        description="part of the JPEGs for the GPU's hardware decoder (dali on a GPU)",
        json_schema_extra=ROUNDING,
    )
    resident_limit_gb: float = Field(
        4.0,
        gt=0,
        description="most memory for decoded pictures, in gigabytes, before auto prefers dali or threaded",
        json_schema_extra=SPEED,
    )

    @field_validator("transforms", mode="before")
    @classmethod
    def _read_transforms(cls, steps: object) -> object:
        """Read the steps, which may be names or mappings."""
        return read_steps(steps)

    @model_validator(mode="after")
    def _refuse_wrong_ranges(self) -> DataRecipe:
        """Refuse std not above 0, wrong scale, ratio and padding, and mix_probability without mixing."""
        if min(self.std) <= 0:
            raise ValueError(f"data.std: must be above 0, got {list(self.std)}")
        for key, (low, high) in {"scale": self.scale, "ratio": self.ratio}.items():
            if not 0 < low <= high:
                raise ValueError(
                    f"data.{key}: must be two numbers above 0, the smaller first, got {[low, high]}"
                )
        if self.scale[1] > 1:
            raise ValueError(f"data.scale: a part of the area is at most 1, got {self.scale[1]:g}")
        if self.augment == "pad-crop" and self.padding > self.image_size:
            raise ValueError(
                f"data.padding: must be at most data.image_size, {self.image_size}, got {self.padding}"
            )
        if self.mix_probability < 1 and not self.mixes:
            raise ValueError(
                "data.mix_probability: changes nothing where no pictures are mixed; set data.mixup or "
                "data.cutmix"
            )
        return self

    @model_validator(mode="after")
    def _refuse_large_blur_kernels(self) -> DataRecipe:
        for place, step in enumerate(self.transforms):
            if isinstance(step, GaussianBlur) and step.kernel_size // 2 >= self.image_size:
                raise ValueError(
                    f"data.transforms[{place}] (gaussian-blur): kernel_size: must be below twice "
                    f"data.image_size, {self.image_size}, got {step.kernel_size}"
                )
        return self

    @property
    def resized_side(self) -> int:
        """Shorter side before the centre crop in evaluation, in pixels."""
        return self.eval_resize or self.image_size

    @property
    def mixes(self) -> bool:
        """Tell whether pairs of training pictures are mixed."""
        return self.mixup > 0 or self.cutmix > 0
