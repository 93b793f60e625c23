"""The gate file: limits of the test set and of slices, samples that may never flip, and waivers of flips."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal, NoReturn, Self

from pydantic import Field, PrivateAttr, ValidationError, field_validator, model_validator

from mptctl.errors import UsageError, option
from mptctl.evaluation.limits import Limits, LimitValues, Looks, check_level, refuse_unknown_classes
from mptctl.evaluation.pairing.pairs import ALL, GivenClasses
from mptctl.files import read_text
from mptctl.files.explained import explain, shown
from mptctl.files.model import Typed
from mptctl.files.text_file import read_named_lines, read_names

# Room for some ten thousand waivers; nobody reviews a larger file.
MOST_BYTES = 2**21
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class FileLimits(LimitValues):
    """Limits as people write them: rates in percent, errors in points."""

    def fractions(self) -> dict[str, float]:
        """The limits that are set, as fractions by field, which are arguments of `Limits`."""
        return {kind.key: value / 100 for kind, value in self.given()}


class WholeLimits(FileLimits):
    """Limits of the whole test set, or the one of traffic with few labels."""

    max_flip_rate: float | None = Field(
        default=None, ge=0, le=100, description="largest rate of negative flips of traffic with few labels"
    )


class SliceLimits(FileLimits):
    """Limits of one slice."""

    by: dict[str, str] = Field(min_length=1, description="its value in each column")

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        """Raise ValueError where no limit is set."""
        if not self.fractions():
            raise ValueError("sets no limit; give one, such as max_nfr: 1.0")
        return self


class MustKeep(Typed):
    """Samples that may not flip at all."""

    ids: list[str] = Field(default_factory=list, description="by id")
    file: str | None = Field(default=None, description="a file of ids, one a line, beside the gate file")
    by: dict[str, str] | None = Field(default=None, min_length=1, description="a slice")


class Waiver(Typed):
    """Flips that were agreed to: of one sample, or of a slice."""

    id: str | None = Field(default=None, description="the sample")
    by: dict[str, str] | None = Field(default=None, min_length=1, description="or the slice")
    reason: str = Field(pattern=r"\S", description="why")
    owner: str = Field(pattern=r"\S", description="who is responsible for it")
    expires: date = Field(description="the last day on which it is valid, in UTC")
    max_flips: int | None = Field(
        default=None,
        ge=1,
        description="of a slice: the most flips that were agreed to; with more the waiver is not valid",
    )

    @field_validator("expires", mode="before")
    @classmethod
    def _check_day(cls, value: object) -> object:
        """Raise ValueError for a text that is no day; pydantic would take a number for seconds since 1970."""
        if isinstance(value, str) and not _DAY.fullmatch(value):
            raise ValueError(f"must be a day such as 2027-01-31, got {shown(repr(value))}")
        return value

    @model_validator(mode="after")
    def _check_target(self) -> Self:
        """Raise ValueError unless the waiver is for one sample, or for a slice with `max_flips`."""
        if (self.id is None) == (self.by is None):
            raise ValueError("is for one sample or for one slice; give either id or by")
        if self.by is not None and self.max_flips is None:
            raise ValueError(
                "is for a slice without a number of flips; give max_flips, the most that were agreed to"
            )
        if self.id is not None and self.max_flips is not None:
            raise ValueError("is for one sample, which flips once; max_flips is for by")
        return self


@dataclass(frozen=True)
class ListedIds:
    """The ids that were read from `must_keep.file`.

    Attributes:
        path: of this file.
        lines: by id, the number of the first line with this id. Messages name lines and not ids, because the
            author of a gate file may have no right to read the file that is named in it.
    """

    path: Path
    lines: Mapping[str, int]


class GateFile(Typed):
    """The rules of a release, as a file that is reviewed like code."""

    confidence: float | None = Field(default=None, description="level of the interval that decides")
    looks: Looks = Field(
        default="once", description="any: the gate may be asked again as samples or labels are added"
    )
    old_classes: list[str] | str | None = Field(
        default=None,
        min_length=1,
        description="the old classes: a list, a file of them, one a line, beside the gate file, or `all` "
        "labels; default: what OLD says",
    )
    allow: list[Literal["identical", "unfinished"]] = Field(
        default_factory=list,
        description="conditions that do not fail the gate: OLD and NEW are one model, or a run is not "
        "finished",
    )
    limits: WholeLimits = Field(default=WholeLimits(), description="over all samples of old classes")
    slices: list[SliceLimits] = Field(default_factory=list, description="limits of single slices")
    must_keep: MustKeep = Field(default=MustKeep(), description="no flip at all")
    waivers: list[Waiver] = Field(default_factory=list, description="flips that do not count")
    _name: str = PrivateAttr(default="the gate file")
    _listed: ListedIds | None = PrivateAttr(default=None)
    _listed_old_classes: list[str] | None = PrivateAttr(default=None)

    @property
    def given_old_classes(self) -> GivenClasses:
        """The old classes that the file names, read from their own file if it names one; None: not named."""
        return ALL if self.old_classes == ALL else self._listed_old_classes

    @property
    def name_of_old_classes(self) -> str:
        """The key with the old classes, after the file, for messages."""
        return f"{self._name}: old_classes"

    @property
    def listed(self) -> ListedIds | None:
        """The ids that were read from `must_keep.file`; None where no file is named."""
        return self._listed

    def parts(self) -> list[tuple[str, LimitValues]]:
        """The limits of the whole test set and of each slice, as fractions, each after its key."""
        parts = [(f"{self._name}: limits: ", LimitValues(**self.limits.fractions()))]
        for number, rule in enumerate(self.slices):
            parts.append((f"{self._name}: slices[{number}]: ", LimitValues(**rule.fractions())))
        return parts

    def check_ranges(self) -> None:
        """Raise UsageError where a confidence or a limit is out of its range."""
        check_level(self.confidence, f"{self._name}: confidence")
        for place, part in self.parts():
            for kind, limit in part.given():
                kind.check_range(limit, place)

    def check_reach(self, samples: Sequence[int]) -> None:
        """Raise UsageError where no table of so many samples can exceed a limit on Rel-NFR.

        Args:
            samples: of the whole test set, then of each slice.
        """
        for (place, part), total in zip(self.parts(), samples, strict=True):
            for kind, limit in part.given():
                kind.check_reach(limit, total, place)

    def refuse_unknown_classes(self, never_predicted: Collection[str]) -> None:
        """Raise UsageError for a limit that may be easier to keep without labels that OLD never predicts."""
        for place, part in self.parts():
            refuse_unknown_classes(part, never_predicted, f"write old_classes into {self._name}", place)

    def keys(self) -> list[tuple[str, ...]]:
        """The columns, or crossings of columns, of all slices in limits, waivers and must_keep; each once."""
        every = [
            *(rule.by for rule in self.slices),
            *(waiver.by for waiver in self.waivers),
            self.must_keep.by,
        ]
        return list(dict.fromkeys(tuple(sorted(by)) for by in every if by is not None))

    def keeping(self, ids: Sequence[str]) -> GateFile:
        """Return a copy of the rules in which some more ids must be kept."""
        keep = self.must_keep.model_copy(update={"ids": [*self.must_keep.ids, *ids]})
        return self.model_copy(update={"must_keep": keep})

    def merged(self, flags: Limits) -> Limits:
        """Merge the file's limits with those of flags; where both set a value, the stricter one is taken.

        An undecided limit fails, so a higher confidence is stricter.

        Raises:
            UsageError: file and flags set no limit and the file has no rule, so every release would pass; or
                the file has a limit of traffic with few labels.
        """
        if self.limits.max_flip_rate is not None:
            raise UsageError(
                f"{option('gate')} {self._name}: limits: max_flip_rate is for traffic with few labels; give "
                f"{option('labels')} too, or write max_nfr"
            )
        limits = self._stricter(flags)
        if not (limits.given() or self.slices or self.must_keep != MustKeep()):
            raise self._error_of_no_limit("limits, slices or must_keep")
        return limits

    def merged_for_labels(self, flags: Limits, flip_rate: float | None) -> tuple[Limits, float]:
        """Merge the file's rules on traffic with few labels with those of flags, as `merged`.

        Args:
            flags: confidence and looks.
            flip_rate: the flag's limit in percent.

        Returns:
            The merged rules, and the limit in percent.

        Raises:
            UsageError: no limit is set, or the file has a rule that such labels cannot decide.
        """
        other_keys = [key for key in GateFile.model_fields if key not in ("confidence", "looks", "limits")]
        without_rules = GateFile()
        undecided = [key for key in other_keys if getattr(self, key) != getattr(without_rules, key)]
        undecided += [f"limits: {limit.key}" for limit, _ in self.limits.given()]
        if undecided:
            raise UsageError(
                f"{option('gate')} {self._name}: {undecided[0]}: labels of rows whose predictions differ "
                "cannot decide it; write limits: {max_flip_rate: 2} into a file of its own"
            )
        rates = [rate for rate in (flip_rate, self.limits.max_flip_rate) if rate is not None]
        if not rates:
            raise self._error_of_no_limit("limits: {max_flip_rate: 2}")
        return self._stricter(flags), min(rates)

    def _error_of_no_limit(self, remedy: str) -> UsageError:
        return UsageError(f"{option('gate')} {self._name}: sets no limit; give {remedy} in it")

    def _stricter(self, flags: Limits) -> Limits:
        """The stricter one of each setting of the file and of flags."""
        content = flags.model_dump()
        # Flags that allow something are refused beside a file.
        content |= {f"allow_{condition}": True for condition in self.allow}
        for key, limit in self.limits.fractions().items():
            content[key] = limit if content[key] is None else min(content[key], limit)
        if self.confidence is not None:
            content["confidence"] = max(self.confidence, flags.confidence or 0)
        if self.looks == "any":
            content["looks"] = "any"
        return Limits(**content)

    def overruled(self, flags: Limits, flip_rate: float | None = None) -> list[str]:
        """Return a warning on each flag whose value differs from the file's, with the value that is used."""
        warnings: list[str] = []
        for limit, value in flags.given():
            own = getattr(self.limits, limit.key)
            warnings += self._warn_if_other(f"--{limit.name}", 100 * value, own, min)
        if flip_rate is not None:
            warnings += self._warn_if_other("--max-flip-rate", flip_rate, self.limits.max_flip_rate, min)
        if flags.confidence is not None:
            warnings += self._warn_if_other("--confidence", flags.confidence, self.confidence, max)
        return warnings

    def _warn_if_other(
        self, flag: str, value: float, own: float | None, stricter: Callable[[float, float], float]
    ) -> list[str]:
        """Return a warning where a flag has another value than the file's own; none where the file has none.

        Args:
            flag: its name.
            value: of the flag.
            own: value of the file.
            stricter: picks the stricter one of two values.
        """
        if own is None or math.isclose(value, own):
            return []
        return [
            f"{flag} {value:g}: {self._name} says {own:g}; the stricter of the two is used, "
            f"{stricter(value, own):g}"
        ]

    def refuse_flag(self, flag: str, line: str) -> NoReturn:
        """Refuse a flag or argument that could make a rule of the file let more pass.

        Args:
            flag: its name.
            line: what to write into the file in its place.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"{flag}: could loosen {self._name}, so it is not taken beside it; write `{line}` there"
        )

    def _read_named_files(self, folder: Path) -> GateFile:
        """Read the files of old classes and of ids that the rules name; return rules that keep these ids.

        Args:
            folder: of the gate file, which the names are relative to.

        Raises:
            UsageError, DataError: a file cannot be read.
        """
        if isinstance(self.old_classes, list):
            self._listed_old_classes = list(self.old_classes)
        elif self.old_classes not in (None, ALL):
            path = folder / str(self.old_classes)
            self._listed_old_classes = read_names(path, f"{self.name_of_old_classes}:")
        if self.must_keep.file is None:
            return self
        path = folder / self.must_keep.file
        lines: dict[str, int] = {}
        for number, name in read_named_lines(path, f"{self._name}: must_keep.file:"):
            lines.setdefault(name, number)
        self._listed = ListedIds(path, lines)
        return self.keeping(list(lines))


# How a value must be written, by pydantic's type of the error.
_FORMS = {
    "dict_type": "must be a mapping of columns to values, such as country: de",
    "list_type": "must be a list, such as [test/00042]",
}


def read_gate_file(path: Path) -> GateFile:
    """Read a gate file, the classes of `old_classes`, and the ids of `must_keep.file`, added to its `ids`.

    Raises:
        UsageError: the file cannot be read, is no YAML, has an unknown key (the message names the nearest
            one), or a value that is not valid.
        DataError: the gate file or the file of ids is a device or FIFO.
    """
    text = read_text(
        path,
        MOST_BYTES,
        f"{option('gate')} {path}",
        remedy="mptctl gate init writes one",
        if_larger="put ids into must_keep.file",
    )
    # Imported only here: a comparison without a gate file needs no YAML.
    from mptctl.files.yaml_text import read_yaml, refuse_unknown_keys

    content = read_yaml(text, str(path))
    if not isinstance(content, dict):
        raise UsageError(f"{path}: must be a mapping of keys, such as limits; mptctl gate init writes one")
    refuse_unknown_keys(text, GateFile.model_fields, str(path))
    try:
        rules = GateFile.model_validate(content)
    except ValidationError as error:
        raise UsageError(f"{path}: {explain(error, GateFile, forms=_FORMS)}") from error
    rules._name = str(path)
    rules.check_ranges()
    return rules._read_named_files(path.parent)
