"""The recipe's group `criterion`: names of criteria, and their parameters with defaults and ranges.

Defaults are those of Liu et al., "The Devil is in the Margin" (CVPR 2022), section 4, unless noted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, get_args

from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, field_validator, model_serializer

from mptctl.errors import UsageError
from mptctl.files.explained import nearest, shown
from mptctl.files.model import NOTHING, Typed

CriterionName = Literal["ce", "ls", "fl", "flsd", "ecp", "mbls"]
# For each setting, the criterion that uses it.
SETTING_OF: Mapping[str, str] = {
    "smoothing": "ls",
    "gamma": "fl",
    "weight": "ecp",
    "margin": "mbls",
    "alpha": "mbls",
    "reduction": "mbls",
}
# Ways to compute class weights from numbers of pictures, and beta of the effective number of samples.
WeightsName = Literal["inverse", "effective"]
EFFECTIVE_BETA = 0.999


class Group(Typed):
    """A group of keys of a recipe. Numbers are finite; a key's type decides how its value is read."""

    # JSON has no infinite number: infinity is written as text, which is read back as a number.
    model_config = ConfigDict(allow_inf_nan=False, ser_json_inf_nan="strings")


class GroupWithSettings(Group):
    """A group that may name a part of one's own and hold its settings; none are left out when written."""

    @model_serializer(mode="wrap")
    def _leave_out_no_settings(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = dump(self)
        if not content.get("settings"):
            content.pop("settings", None)
        return content

    def __hash__(self) -> int:  # a mapping has none of its own
        return hash(self.model_dump_json())


class CriterionRecipe(GroupWithSettings):
    """The loss of the student's own predictions, a part of every method."""

    name: str = Field(
        "ce",
        description="cross-entropy, label smoothing, focal loss, the same with two gammas, explicit "
        "confidence penalty, or margin-based label smoothing; or one of your own",
    )
    smoothing: float = Field(
        0.05, ge=0, le=1, description="ls: part of the target that is spread over all classes"
    )
    gamma: float = Field(3.0, ge=0, description="fl: exponent of 1 - p of the true class")
    weight: float = Field(0.1, ge=0, description="ecp: weight of the entropy, which is subtracted")
    margin: float = Field(
        10.0,
        ge=0,
        allow_inf_nan=True,  # infinity is cross-entropy, the limit; NaN is not >= 0
        description="mbls: a logit nearer to the largest one than this costs nothing",
    )
    alpha: float = Field(0.1, ge=0, description="mbls: weight of the distance beyond the margin")
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

    settings: dict[str, Any] = Field({}, description="of a criterion of one's own")

    @field_validator("class_weights", mode="before")
    @classmethod
    def _refuse_unknown_weights(cls, value: object) -> object:
        """Refuse text that is neither a way to compute weights nor null; a file has been read before."""
        if isinstance(value, str) and value not in (*get_args(WeightsName), *NOTHING):
            raise ValueError(
                f"criterion.class_weights: no such file or choice: {shown(value)}"
                f"{nearest(value, get_args(WeightsName))}"
            )
        return value

    @field_validator("class_weights", mode="after")
    @classmethod
    def _refuse_weights_not_above_0(cls, value: WeightsName | dict[str, float] | None) -> object:
        for name, weight in value.items() if isinstance(value, dict) else ():
            if weight <= 0:
                raise ValueError(f"criterion.class_weights: {shown(name)}: must be above 0, got {weight:g}")
        return value


def refuse_unused_settings(
    recipe: CriterionRecipe, given: Collection[str], where: str, *, written: str | None = None
) -> None:
    """Refuse settings of other criteria than the chosen one, since they change nothing.

    Args:
        recipe: the group, with the name of the chosen criterion. Settings at their defaults are allowed,
            since the recipe of a run has every key.
        given: keys of the group that the user gives, at their defaults too; unknown keys pass.
        where: name of the recipe in the message.
        written: the criterion of the file or preset, whose settings may stand there although another
            criterion was chosen.

    Raises:
        UsageError: names the setting, and the criterion that uses it.
    """
    defaults = type(recipe).model_fields
    changed = [key for key in SETTING_OF if getattr(recipe, key) != defaults[key].default]
    for key in (*given, *changed):
        owner = SETTING_OF.get(key, recipe.name)
        if owner != recipe.name and (key in given or owner != written):
            raise UsageError(
                f"{where}: criterion.{key}: is a setting of {owner}, and changes nothing where "
                f"criterion.name is {recipe.name}; set criterion.name={owner}, or leave it out"
            )
