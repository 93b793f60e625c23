"""What all groups of a recipe have in common: finite numbers, and no true or false for a number."""

from __future__ import annotations

from pydantic import ConfigDict, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from mptctl.files import Model


class Group(Model):
    """One group of keys of a recipe."""

    model_config = ConfigDict(allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: object, info: ValidationInfo) -> object:
        # Pydantic takes true for 1, so that `lr: yes` would train at 1.0.
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation is not bool:
            raise PydanticCustomError("not_bool", "input should not be true or false")
        return value
