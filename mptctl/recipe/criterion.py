"""The criterion of a recipe: the names that there are, and their parameters with defaults and ranges.

Defaults are those of Liu et al., "The Devil is in the Margin" (CVPR 2022), section 4, where nothing else is
said.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar, Literal, get_args

from pydantic import (
    ConfigDict,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
)

from mptctl.errors import UsageError
from mptctl.files.explained import nearest, shown
from mptctl.files.model import NOTHING, Typed

CriterionName = Literal["ce", "ls", "fl", "flsd", "ecp", "mbls"]
# The criterion that each setting belongs to.
SETTING_OF: Mapping[str, CriterionName] = {
    "smoothing": "ls",
    "gamma": "fl",
    "weight": "ecp",
    "margin": "mbls",
    "alpha": "mbls",
    "reduction": "mbls",
}
# What computes class weights from the numbers of pictures, and beta of the effective number of samples.
WeightsName = Literal["inverse", "effective"]
EFFECTIVE_BETA = 0.999

# Context of a dump that holds the keys of `Group.LATER` whatever they are.
ALL_KEYS = "all keys"


class Group(Typed):
    """A group of keys of a recipe: numbers are finite, and the type of a key decides how a value is read.

    Attributes:
        LATER: keys that came after checkpoints and caches were written; at their defaults they are left out
            of what is made into digests and cache keys, so that those stay what they were.
    """

    # JSON has no infinity as a number; the text is read back as one.
    model_config = ConfigDict(allow_inf_nan=False, ser_json_inf_nan="strings")
    LATER: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _without_later_defaults(
        self, handler: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, object]:
        # Builtin types alone: pydantic 2.10 looks these names up in the file of each subclass.
        content: dict[str, object] = handler(self)
        if info.context == ALL_KEYS:
            return content
        fields = type(self).model_fields
        idle = {key for key in self.LATER if getattr(self, key) == fields[key].default}
        return {key: value for key, value in content.items() if key not in idle}


class CriterionRecipe(Group):
    """The cost of the student's own answers, in every method."""

    LATER = frozenset({"class_weights"})

    name: CriterionName = Field(
        "ce",
        description="cross-entropy, label smoothing, focal loss, the same with two gammas, explicit "
        "confidence penalty, or margin-based label smoothing",
    )
    smoothing: float = Field(0.05, ge=0, le=1, description="ls: part of the target that all classes share")
    gamma: float = Field(3.0, ge=0, description="fl: exponent of 1 - p of the true class")
    weight: float = Field(0.1, ge=0, description="ecp: weight of the entropy that is taken off")
    margin: float = Field(
        10.0,
        ge=0,
        allow_inf_nan=True,  # infinity is cross-entropy, the limit; NaN is not >= 0
        description="mbls: distance from the largest logit that costs nothing",
    )
    alpha: float = Field(0.1, ge=0, description="mbls: weight of what lies beyond the margin")
    reduction: Literal["mean", "sum"] = Field(
        "mean",
        description="mbls over classes: mean as the published code, sum as the paper (Eq. 4)",
    )
    class_weights: WeightsName | dict[str, float] | None = Field(
        None,
        description="factor of the criterion by the true class: inverse of its training pictures, or of "
        f"their effective number (Cui et al. 2019, beta {EFFECTIVE_BETA}), 1 in the mean over pictures; or a "
        "YAML file of class names and weights, taken as they are",
    )

    def __hash__(self) -> int:  # a mapping of weights has none of its own
        return hash(self.model_dump_json())

    @field_validator("class_weights", mode="before")
    @classmethod
    def _refuse_other_words(cls, said: object) -> object:
        if isinstance(said, str) and said not in (*get_args(WeightsName), *NOTHING):
            raise ValueError(
                f"criterion.class_weights: no such file or choice: {shown(said)}"
                f"{nearest(said, get_args(WeightsName))}"
            )
        return said

    @field_validator("class_weights", mode="after")
    @classmethod
    def _weights_are_above_0(cls, said: WeightsName | dict[str, float] | None) -> object:
        for name, weight in said.items() if isinstance(said, dict) else ():
            if weight <= 0:
                raise ValueError(f"criterion.class_weights: {shown(name)}: must be above 0, got {weight:g}")
        return said


def refuse_idle(
    recipe: CriterionRecipe, keys: Iterable[str], where: str, *, names: Collection[str] = ()
) -> None:
    """Refuse settings that change nothing under the criterion that was chosen.

    Args:
        recipe: the group.
        keys: that a person gave.
        where: what to call it in a message.
        names: further criteria whose settings may stand there.

    Raises:
        UsageError: names the setting, and the criterion that it belongs to.
    """
    for key in keys:
        owner = SETTING_OF.get(key, recipe.name)
        if owner != recipe.name and owner not in names:
            raise UsageError(
                f"{where}: criterion.{key}: is a setting of {owner}, and changes nothing where "
                f"criterion.name is {recipe.name}; set criterion.name={owner}, or leave it out"
            )
