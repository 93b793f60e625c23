"""The steps of `data.transforms`, with torchvision's names and defaults of their parameters."""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import Field, PositiveInt, ValidationError, field_serializer, field_validator, model_validator

from mptctl.files.explained import explain, nearest, shown_value
from mptctl.recipe.criterion import Group

Resampling = Literal["nearest", "bilinear"]
Colour = float | tuple[float, float, float]
# As torchvision takes a range: both ends, or how far it reaches to either side.
Range = float | tuple[float, float]


class _Named(Group):
    """A step; its name stands first."""

    name: str

    def __repr__(self) -> str:
        """Its name, and of its parameters those that are not the defaults."""
        fields = type(self).model_fields
        values = self.model_dump(mode="json")
        said = [f"{key} {values[key]}" for key in fields if getattr(self, key) != fields[key].default]
        return f"{self.name} ({', '.join(said)})" if said else self.name


class _Sometimes(_Named):
    """A step that a part of the pictures goes through."""

    p: float = Field(1.0, ge=0, le=1, description="part of the pictures, as RandomApply has it")


class ColorJitter(_Sometimes):
    """Brightness, contrast, saturation and hue by random factors, in random order."""

    name: Literal["color-jitter"] = "color-jitter"
    brightness: Range = Field(0.0, description="factors from 1 - it to 1 + it, or from one to the other")
    contrast: Range = Field(0.0, description="the same")
    saturation: Range = Field(0.0, description="the same")
    hue: Range = Field(0.0, description="from -it to it, or from one to the other, within -0.5 to 0.5")

    @property
    def factors(self) -> dict[str, tuple[float, float] | None]:
        """Smallest and largest factor by operation; None for one that changes nothing."""
        ranges: dict[str, tuple[float, float] | None] = {}
        for key, value in (
            ("brightness", self.brightness),
            ("contrast", self.contrast),
            ("saturation", self.saturation),
            ("hue", self.hue),
        ):
            centre = 0.0 if key == "hue" else 1.0
            low, high = value if isinstance(value, tuple) else (centre - value, centre + value)
            if key != "hue" and not isinstance(value, tuple):
                low = max(low, 0.0)
            ranges[key] = None if low == high == centre else (low, high)
        return ranges

    @model_validator(mode="after")
    def _changes_pictures(self) -> ColorJitter:
        if not any(self.factors.values()):
            raise ValueError("changes nothing; set brightness, contrast, saturation or hue")
        for key, ends in self.factors.items():
            lowest, highest = (-0.5, 0.5) if key == "hue" else (0.0, float("inf"))
            if ends is not None and not lowest <= ends[0] <= ends[1] <= highest:
                within = "within -0.5 to 0.5" if key == "hue" else "at least 0"
                raise ValueError(f"{key}: must be {within}, the smaller first, got {list(ends)}")
        return self


class _FromSpace(_Named):
    """A step that draws operations, some of which move pixels."""

    interpolation: Resampling = Field("nearest", description="how moved pixels are read")
    fill: Colour | None = Field(None, description="grey level or colour beyond the edge; null: black")


class RandAugment(_FromSpace):
    """Operations drawn at random, all of one magnitude (Cubuk et al. 2020)."""

    name: Literal["rand-augment"] = "rand-augment"
    num_ops: PositiveInt = Field(2, le=16, description="operations on each picture")
    magnitude: int = Field(9, ge=0, description="of all operations, below num_magnitude_bins")
    num_magnitude_bins: int = Field(31, ge=2, description="magnitudes that there are")

    @model_validator(mode="after")
    def _has_this_magnitude(self) -> RandAugment:
        if self.magnitude >= self.num_magnitude_bins:
            raise ValueError(
                f"magnitude: must be below num_magnitude_bins, {self.num_magnitude_bins}, "
                f"got {self.magnitude}"
            )
        return self


class TrivialAugment(_FromSpace):
    """One operation of a random magnitude (Mueller and Hutter 2021; torchvision's TrivialAugmentWide)."""

    name: Literal["trivial-augment"] = "trivial-augment"
    num_magnitude_bins: int = Field(31, ge=2, description="magnitudes that there are")


class AutoAugment(_FromSpace):
    """Pairs of operations that were learnt on ImageNet (Cubuk et al. 2019)."""

    name: Literal["auto-augment"] = "auto-augment"
    policy: Literal["imagenet"] = Field("imagenet", description="where the pairs were learnt")


class Grayscale(_Named):
    """Grey pictures with three channels (torchvision's RandomGrayscale)."""

    name: Literal["grayscale"] = "grayscale"
    p: float = Field(0.1, ge=0, le=1, description="part of the pictures")


class GaussianBlur(_Sometimes):
    """A blur of random width."""

    name: Literal["gaussian-blur"] = "gaussian-blur"
    kernel_size: PositiveInt = Field(description="side of the kernel, odd, in pixels; has no default")
    sigma: Range = Field((0.1, 2.0), description="deviation in pixels, or the smallest and the largest")

    @property
    def sigmas(self) -> tuple[float, float]:
        """The smallest and the largest deviation."""
        return self.sigma if isinstance(self.sigma, tuple) else (self.sigma, self.sigma)

    @model_validator(mode="after")
    def _has_a_kernel(self) -> GaussianBlur:
        if self.kernel_size % 2 == 0:
            raise ValueError(f"kernel_size: must be odd, got {self.kernel_size}")
        if not 0 < self.sigmas[0] <= self.sigmas[1]:
            raise ValueError(f"sigma: must be above 0, the smaller first, got {list(self.sigmas)}")
        return self


class Rotation(_Sometimes):
    """A rotation about the centre by a random angle (torchvision's RandomRotation)."""

    name: Literal["rotation"] = "rotation"
    degrees: Range = Field(description="from -it to it, or from one to the other; has no default")
    interpolation: Resampling = Field("nearest", description="how moved pixels are read")
    fill: Colour | None = Field(0.0, description="grey level or colour beyond the edge")

    @property
    def angles(self) -> tuple[float, float]:
        """The smallest and the largest angle, in degrees."""
        return self.degrees if isinstance(self.degrees, tuple) else (-self.degrees, self.degrees)

    @model_validator(mode="after")
    def _angles_rise(self) -> Rotation:
        if not self.angles[0] <= self.angles[1]:
            raise ValueError(f"degrees: must be at least 0, or the smaller first, got {self.degrees}")
        return self


class RandomErasing(_Named):
    """A rectangle of another colour, after normalisation (Zhong et al. 2020)."""

    name: Literal["random-erasing"] = "random-erasing"
    p: float = Field(0.5, ge=0, le=1, description="part of the pictures")
    scale: tuple[float, float] = Field((0.02, 0.33), description="part of the area")
    ratio: tuple[float, float] = Field((0.3, 3.3), description="height over width")
    value: Colour | None = Field(
        0.0, description="normalised value of the pixels, one a channel, or random: normal noise"
    )

    @field_validator("value", mode="before")
    @classmethod
    def _read_random(cls, value: object) -> object:
        return None if value == "random" else value

    @field_serializer("value")
    def _write_random(self, value: Colour | None) -> Colour | str:
        return "random" if value is None else value

    @model_validator(mode="after")
    def _ranges_are_ranges(self) -> RandomErasing:
        if not 0 <= self.scale[0] <= self.scale[1] <= 1:
            raise ValueError(f"scale: must be within 0 to 1, the smaller first, got {list(self.scale)}")
        if not 0 < self.ratio[0] <= self.ratio[1]:
            raise ValueError(f"ratio: must be above 0, the smaller first, got {list(self.ratio)}")
        return self


PixelStep = ColorJitter | RandAugment | TrivialAugment | AutoAugment | Grayscale | GaussianBlur | Rotation
Step = PixelStep | RandomErasing
STEPS: dict[str, type[Group]] = {kind.model_fields["name"].default: kind for kind in get_args(Step)}
EXAMPLE = "[{name: rand-augment, num_ops: 2, magnitude: 9}]"


def read_steps(steps: object) -> list[Any]:
    """Reads the list of steps, each a mapping with its name; a name alone stands for a step's defaults.

    Raises:
        ValueError: names the step, what is wrong with it, and what was probably meant.
    """
    if not isinstance(steps, list | tuple):
        raise ValueError(f"data.transforms: must be a list such as {EXAMPLE}, got {shown_value(steps)}")
    return [_read_step(f"data.transforms[{place}]", step) for place, step in enumerate(steps)]


def _read_step(where: str, step: object) -> object:
    if isinstance(step, Group):
        return step
    said = {"name": step} if isinstance(step, str) else step
    if not isinstance(said, dict) or not isinstance(said.get("name"), str):
        raise ValueError(f"{where}: must be a mapping with a name, such as {EXAMPLE[1:-1]}")
    name = str(said["name"])
    if name not in STEPS:
        raise ValueError(f"{where}: no such step: {shown_value(name)}{nearest(name, list(STEPS))}")
    try:
        return STEPS[name].model_validate(said)
    except ValidationError as error:
        raise ValueError(f"{where} ({name}): {explain(error, STEPS[name])}") from error
