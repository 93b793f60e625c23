"""The steps of the recipe key `data.transforms`; parameters have torchvision's names and defaults."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    Field,
    PositiveInt,
    ValidationError,
    field_serializer,
    field_validator,
    model_validator,
)

from mptctl.files.explained import explain, nearest, shown_value
from mptctl.recipe.criterion import Group

Resampling = Literal["nearest", "bilinear"]
Colour = float | tuple[float, float, float]
# A range as in torchvision: both ends, or the distance from the centre to either end.
Range = float | tuple[float, float]


def _refuse_beyond_levels(colour: Colour | None) -> Colour | None:
    """Refuse a colour that has a channel outside of 0 to 255."""
    levels = colour if isinstance(colour, tuple) else (colour or 0.0,)
    if not all(0 <= level <= 255 for level in levels):
        raise ValueError(f"fill: must be within 0 to 255, got {list(levels)}")
    return colour


PixelColour = Annotated[Colour | None, AfterValidator(_refuse_beyond_levels)]


class _Step(Group):
    """A step of `data.transforms`, with its name as first key."""

    name: str

    def __repr__(self) -> str:
        """The step's name, and those parameters that are not at their defaults."""
        fields = type(self).model_fields
        values = self.model_dump(mode="json")
        changed = [f"{key} {values[key]}" for key in fields if getattr(self, key) != fields[key].default]
        return f"{self.name} ({', '.join(changed)})" if changed else self.name


class _RandomStep(_Step):
    """A step that is applied to a part of the pictures."""

    p: float = Field(1.0, ge=0, le=1, description="part of the pictures, as in RandomApply")


def _both_ends(value: Range, centre: float = 0.0) -> tuple[float, float]:
    """Smallest and largest value of a range."""
    return value if isinstance(value, tuple) else (centre - value, centre + value)


def _factor_range(value: Range) -> tuple[float, float] | None:
    """Smallest and largest factor, at least 0 unless both are given; None if both are 1."""
    low, high = _both_ends(value, 1.0)
    low = low if isinstance(value, tuple) else max(low, 0.0)
    return None if low == high == 1.0 else (low, high)


class ColorJitter(_RandomStep):
    """Changes brightness, contrast, saturation and hue by random factors, in random order."""

    name: Literal["color-jitter"] = "color-jitter"
    brightness: Range = Field(
        0.0, description="b: factors from 1 - b to 1 + b; or the smallest and the largest factor"
    )
    contrast: Range = Field(0.0, description="as brightness")
    saturation: Range = Field(0.0, description="as brightness")
    hue: Range = Field(
        0.0, description="h: shifts from -h to h; or the smallest and the largest; within -0.5 to 0.5"
    )

    @property
    def factors(self) -> dict[str, tuple[float, float] | None]:
        """Smallest and largest factor of each operation, for hue shift; None if it changes nothing."""
        return {
            "brightness": _factor_range(self.brightness),
            "contrast": _factor_range(self.contrast),
            "saturation": _factor_range(self.saturation),
            "hue": _both_ends(self.hue) if self.hue not in (0.0, (0.0, 0.0)) else None,
        }

    @model_validator(mode="after")
    def _refuse_wrong_factors(self) -> ColorJitter:
        """Refuse a step that changes nothing, and factors that fall or are out of range."""
        if not any(self.factors.values()):
            raise ValueError("changes nothing; set brightness, contrast, saturation or hue")
        for key, ends in self.factors.items():
            lowest, highest = (-0.5, 0.5) if key == "hue" else (0.0, float("inf"))
            if ends is not None and not lowest <= ends[0] <= ends[1] <= highest:
                within = "within -0.5 to 0.5" if key == "hue" else "at least 0"
                raise ValueError(f"{key}: must be {within}, the smaller first, got {list(ends)}")
        return self


class _OperationStep(_Step):
    """A step that draws operations from a list; some operations move pixels."""

    interpolation: Resampling = Field("nearest", description="how values between pixels are computed")
    fill: PixelColour = Field(None, description="grey level or colour beyond the edge; null: black")


class RandAugment(_OperationStep):
    """Applies operations drawn at random, all of one magnitude (Cubuk et al. 2020)."""

    name: Literal["rand-augment"] = "rand-augment"
    num_ops: PositiveInt = Field(2, le=16, description="operations on each picture")
    magnitude: int = Field(9, ge=0, description="magnitude of all operations, below num_magnitude_bins")
    num_magnitude_bins: int = Field(31, ge=2, description="number of magnitudes")

    @model_validator(mode="after")
    def _refuse_large_magnitude(self) -> RandAugment:
        if self.magnitude >= self.num_magnitude_bins:
            raise ValueError(
                f"magnitude: must be below num_magnitude_bins, {self.num_magnitude_bins}, "
                f"got {self.magnitude}"
            )
        return self


class TrivialAugment(_OperationStep):
    """Applies one operation of random magnitude (Mueller, Hutter 2021; torchvision's TrivialAugmentWide)."""

    name: Literal["trivial-augment"] = "trivial-augment"
    num_magnitude_bins: int = Field(31, ge=2, description="number of magnitudes")


class Grayscale(_Step):
    """Makes pictures grey, with three channels (torchvision's RandomGrayscale)."""

    name: Literal["grayscale"] = "grayscale"
    p: float = Field(0.1, ge=0, le=1, description="part of the pictures")


class GaussianBlur(_RandomStep):
    """Blurs pictures with a Gaussian of random width."""

    name: Literal["gaussian-blur"] = "gaussian-blur"
    kernel_size: PositiveInt = Field(description="side of the kernel, odd, in pixels; has no default")
    sigma: Range = Field(
        (0.1, 2.0), description="standard deviation in pixels, or the smallest and the largest"
    )

    @property
    def sigmas(self) -> tuple[float, float]:
        """The smallest and the largest standard deviation, in pixels."""
        return self.sigma if isinstance(self.sigma, tuple) else (self.sigma, self.sigma)

    @model_validator(mode="after")
    def _refuse_wrong_kernel(self) -> GaussianBlur:
        """Refuse an even `kernel_size`, and `sigma` that falls or is not above 0."""
        if self.kernel_size % 2 == 0:
            raise ValueError(f"kernel_size: must be odd, got {self.kernel_size}")
        if not 0 < self.sigmas[0] <= self.sigmas[1]:
            raise ValueError(f"sigma: must be above 0, the smaller first, got {list(self.sigmas)}")
        return self


class Rotation(_RandomStep):
    """Rotates pictures about their centre by a random angle (torchvision's RandomRotation)."""

    name: Literal["rotation"] = "rotation"
    degrees: Range = Field(
        description="d: angles from -d to d; or the smallest and the largest; has no default"
    )
    interpolation: Resampling = Field("nearest", description="how values between pixels are computed")
    fill: PixelColour = Field(0.0, description="grey level or colour beyond the edge")

    @property
    def angles(self) -> tuple[float, float]:
        """The smallest and the largest angle, in degrees."""
        return _both_ends(self.degrees)

    @model_validator(mode="after")
    def _refuse_falling_angles(self) -> Rotation:
        if not self.angles[0] <= self.angles[1]:
            raise ValueError(f"degrees: must be at least 0, or the smaller first, got {self.degrees}")
        return self


class RandomErasing(_Step):
    """Fills a random rectangle with another colour, after normalisation (Zhong et al. 2020)."""

    name: Literal["random-erasing"] = "random-erasing"
    p: float = Field(0.5, ge=0, le=1, description="part of the pictures")
    scale: tuple[float, float] = Field((0.02, 0.33), description="area / area of the picture, from and to")
    ratio: tuple[float, float] = Field((0.3, 3.3), description="height / width, from and to")
    value: Colour | None = Field(
        0.0, description="normalised value of the pixels, one for each channel, or random: normal noise"
    )

    @field_validator("value", mode="before")
    @classmethod
    def _read_random(cls, value: object) -> object:
        """Represent the word "random" by None."""
        return None if value == "random" else value

    @field_serializer("value")
    def _write_random(self, value: Colour | None) -> Colour | str:
        """Write None as "random"."""
        return "random" if value is None else value

    @model_validator(mode="after")
    def _refuse_wrong_ranges(self) -> RandomErasing:
        """Refuse `scale` and `ratio` that fall or are out of range."""
        if not 0 <= self.scale[0] <= self.scale[1] <= 1:
            raise ValueError(f"scale: must be within 0 to 1, the smaller first, got {list(self.scale)}")
        if not 0 < self.ratio[0] <= self.ratio[1]:
            raise ValueError(f"ratio: must be above 0, the smaller first, got {list(self.ratio)}")
        return self


PixelStep = ColorJitter | RandAugment | TrivialAugment | Grayscale | GaussianBlur | Rotation
Step = PixelStep | RandomErasing
STEPS: dict[str, type[Group]] = {kind.model_fields["name"].default: kind for kind in get_args(Step)}
EXAMPLE = "[{name: rand-augment, num_ops: 2, magnitude: 9}]"


def read_steps(steps: object) -> list[Any]:
    """Read the list of steps: mappings with a name, or names alone for steps with default parameters.

    Raises:
        ValueError: a step is unknown or wrong; the message names its place in the list.
    """
    if not isinstance(steps, list | tuple):
        raise ValueError(f"data.transforms: must be a list such as {EXAMPLE}, got {shown_value(steps)}")
    return [_read_step(f"data.transforms[{place}]", step) for place, step in enumerate(steps)]


def _read_step(where: str, step: object) -> object:
    """Read one step as `read_steps` does; ``where`` names its place in messages."""
    if isinstance(step, Group):
        return step
    content = {"name": step} if isinstance(step, str) else step
    if not isinstance(content, dict) or not isinstance(content.get("name"), str):
        raise ValueError(f"{where}: must be a mapping with a name, such as {EXAMPLE[1:-1]}")
    name = str(content["name"])
    if name not in STEPS:
        raise ValueError(f"{where}: no such step: {shown_value(name)}{nearest(name, list(STEPS))}")
    try:
        return STEPS[name].model_validate(content)
    except ValidationError as error:
        raise ValueError(f"{where} ({name}): {explain(error, STEPS[name])}") from error
