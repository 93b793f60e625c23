"""A study as a YAML file: data, recipe, methods with their settings, and seeds; reading and validation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, PositiveInt, ValidationError, field_validator, model_validator

from mptctl.data.places import NAMES
from mptctl.errors import UsageError
from mptctl.files.explained import explain, nearest, shown_value
from mptctl.files.model import Typed, read_as
from mptctl.models.ownership import NOT_RUNS
from mptctl.names import Init
from mptctl.recipe import Recipe, load_recipe
from mptctl.recipe.own import refuse_unknown
from mptctl.recipe.reading import LIST_COMMAND, preset_folder, read_mapping
from mptctl.studies.study_split import StudySplit
from mptctl.training.request import MOST_MEMBERS

# Keys of a recipe that a study sets elsewhere, with the advice for the message.
DECIDED = {"method.name": "write it as method:", "runtime.seed": "write seeds:"}
# The seeds of runs are some thousands above the seed of their study, and must stay below 2**31.
LARGEST_SEED = 2**31 - 100_000
# Arbitrary: planning more takes too long, and nobody reads such a table.
MOST_SEEDS, MOST_ROWS = 1_000, 1_000
OLD, REF, ENSEMBLE = "old", "ref", "ensemble"
# Beginning of the names of folders of trials.
TRIALS = "trials-"
# Names of the other files and folders in the run root of the updates; no update may have one.
TAKEN = (OLD, REF, ENSEMBLE, *NOT_RUNS, "split.json")


class RecipeChange(Typed):
    """Another recipe, or other values of its keys, for the reference, the ensemble and the updates."""

    recipe: str | None = Field(None, description="preset or file; default: the study's")
    set: dict[str, Any] = Field({}, description="recipe keys and their values")


class OldModel(Typed):
    """One of several old models, which differ in their recipes; its run is ``old-NAME``."""

    name: str = Field(description="of its settings")
    set: dict[str, Any] = Field({}, description="recipe keys and their values, such as criterion.name")
    seeds: list[int] | None = Field(None, description="of the study's seeds, those that it has; default: all")

    @field_validator("name")
    @classmethod
    def _can_be_a_folder(cls, name: str) -> str:
        """Refuse, by ValueError, a name that a folder should not have."""
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
            raise ValueError(f"{name!r} names no old model: letters, digits, . _ and -")
        return name

    @property
    def run(self) -> str:
        """The name of the run."""
        return f"{OLD}-{self.name}"


class RowSearch(Typed):
    """The search of a row's method, on the validation part of the study's first seed."""

    search: dict[str, str] = Field(
        min_length=1, description="recipe keys, each with LOW..HIGH, LOW..HIGH:log, or a list of values"
    )
    trials: PositiveInt = Field(8, le=MOST_ROWS, description="drawn at random, each another one")
    max_er_increase: float = Field(
        0.5,
        description="largest error of the choice above the reference's, in points, on the validation part",
    )

    @field_validator("search", mode="before")
    @classmethod
    def _join_lists(cls, search: object) -> object:
        """Write lists of values as text, as `tune --search` has them."""
        if not isinstance(search, Mapping):
            return search
        return {
            key: ",".join(map(str, value)) if isinstance(value, list) else str(value)
            for key, value in search.items()
        }


class UpdateRow(Typed):
    """A row of the table: a method with its settings. A name alone stands for the method of that name."""

    method: str = Field(description="method")
    name: str = Field("", description="of its runs; default: the method's")
    init: Init | None = Field(
        None,
        description="begin with fresh weights, the old model's, or the reference's; default: the recipe's",
    )
    set: dict[str, Any] = Field({}, description="recipe keys and their values, such as method.k")
    ref: Literal["ref", "ensemble"] = Field("ref", description="the reference, where the method has one")
    longer: bool = Field(
        False, description="as many epochs as the study's cost allows, in place of the recipe's"
    )
    seeds: list[int] | None = Field(None, description="of the study's seeds, those that it has; default: all")
    tune: RowSearch | None = Field(None, description="how it is tuned before; default: it is not")

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, content: object) -> object:
        """Make a mapping of a method's name alone, and take the method's name where there is no other."""
        content = {"method": content} if isinstance(content, str) else content
        if isinstance(content, Mapping) and not content.get("name"):
            return {**content, "name": content.get("method", "")}
        return content

    @field_validator("method")
    @classmethod
    def _is_known(cls, method: str) -> str:
        """Refuse, by ValueError, a method that there is not."""
        try:
            refuse_unknown("method", method, f"no such value: {shown_value(method)}")
        except UsageError as error:
            raise ValueError(str(error)) from error
        return method

    @field_validator("name")
    @classmethod
    def _can_be_a_folder(cls, name: str) -> str:
        """Refuse, by ValueError, a name that a folder should not have, or that another run has."""
        if (
            not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name)
            or name in TAKEN
            or name.startswith((f"{OLD}-", TRIALS))
        ):
            raise ValueError(
                f"{name!r} names no update: letters, digits, . _ and -, none of {', '.join(TAKEN)}, and "
                f"nothing that begins with {OLD}- or {TRIALS}"
            )
        return name


class StudyFile(Typed):
    """A study as it stands in its file.

    Raises (through `load_study`):
        UsageError: an unknown key, method or preset, or a value out of range, with the nearest valid name.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    description: str = Field(description="what the table shows, in one line")
    split: StudySplit = Field(description="which data, and how they are divided")
    recipe: str = Field(description="preset, or file, of all runs")
    set: dict[str, Any] = Field({}, description="recipe keys and their values, for all runs")
    new: RecipeChange = Field(
        RecipeChange(), description="what differs in the reference, the ensemble and the updates"
    )
    old_models: list[OldModel] | None = Field(
        None,
        min_length=1,
        max_length=MOST_ROWS,
        description="several old models, to be compared with each other, where there are no updates; "
        "default: one",
    )
    updates: list[UpdateRow] = Field(
        [], max_length=MOST_ROWS, description="the rows of the table, in the order in which they are trained"
    )
    ensemble: PositiveInt | None = Field(
        None, le=MOST_MEMBERS, description="members of the ensemble, for updates with ref: ensemble"
    )
    cost: float | None = Field(
        None,
        gt=0,
        description="largest training cost of a row, in plain trainings; dearer rows are left out; "
        "default: any",
    )
    seeds: list[int] = Field([1], min_length=1, description="of the splits and, with offsets, of the runs")

    @field_validator("seeds")
    @classmethod
    def _are_allowed(cls, seeds: list[int]) -> list[int]:
        """Refuse seeds as `checked_seeds` does."""
        return checked_seeds(seeds)

    @model_validator(mode="after")
    def _is_consistent(self) -> StudyFile:
        """Refuse, by ValueError, parts of the file that contradict each other."""
        _refuse_twice("updates", [update.name for update in self.updates])
        for key, rows in (("updates", self.updates), ("old_models", self.old_models or [])):
            for row in rows:
                if row.seeds is not None and not set(row.seeds) & set(self.seeds):
                    raise ValueError(
                        f"{key}: {row.name}: seeds: {row.seeds}: none of the study's, which are {self.seeds}"
                    )
        first = self.seeds[0]
        for update in self.updates:
            if update.tune is not None and first not in (update.seeds or self.seeds):
                raise ValueError(
                    f"updates: {update.name}: seeds: leave out {first}, the study's first, on which it is "
                    "tuned"
                )
        with_ensemble = [update.name for update in self.updates if update.ref == ENSEMBLE]
        if with_ensemble and self.ensemble is None:
            raise ValueError(
                f"updates: {with_ensemble[0]}: has ref: ensemble; say ensemble: 8, or how many members "
                "there are"
            )
        if self.ensemble is not None and not with_ensemble:
            raise ValueError(f"ensemble: {self.ensemble} members, and no update has ref: ensemble")
        longer = [update.name for update in self.updates if update.longer]
        if longer and self.cost is None:
            raise ValueError(f"updates: {longer[0]}: longer: as long as which cost allows? say cost: 2.7")
        names = [model.name for model in self.old_models or ()]
        _refuse_twice("old_models", names)
        if not names and not self.updates:
            raise ValueError("updates: there is none; name a method, or several old_models to compare these")
        if names and self.updates:
            raise ValueError(
                "old_models: several are compared with each other, without updates; leave updates out, or "
                "old_models"
            )
        return self


def _refuse_twice(key: str, names: list[str]) -> None:
    """Raise ValueError if a name stands twice in the list of a key."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{key}: {min(twice)} stands there twice; give one of them another name")


@dataclass(frozen=True)
class Study:
    """A valid study, with the recipes of its runs; the seeds of these recipes are still to be set.

    Attributes:
        name: of the study.
        file: the content of its file.
        old: recipe of each old model, by the name of the run.
        new: recipe of the reference and of the ensemble's members.
        updates: recipe of each update, by its name.
        flat: split and runs of the only seed lie in the run root itself.
    """

    name: str
    file: StudyFile
    old: dict[str, Recipe]
    new: Recipe
    updates: dict[str, Recipe]
    flat: bool = False

    def folder_of(self, seed: int) -> str:
        """The folder of the split of a seed, relative to the run root; empty for the run root itself."""
        return "" if self.flat else str(seed)


def study_names() -> list[str]:
    """The names of the studies that come with mptctl, sorted."""
    return sorted(path.stem for path in (preset_folder() / "studies").glob("*.yaml"))


def load_study(name_or_file: str) -> Study:
    """Read a study and the recipes of its runs.

    Args:
        name_or_file: a study's name, or a path to a YAML file.

    Raises:
        UsageError: there is no such study, the file is not safe YAML, or a key, method, preset or value is
            not valid.
    """
    where = f"study {name_or_file}"
    path = Path(name_or_file).expanduser()
    if not path.is_file():
        path = preset_folder() / "studies" / f"{name_or_file}.yaml"
        if not path.is_file():
            raise UsageError(
                f"{where}: no such file or study{nearest(name_or_file, study_names(), LIST_COMMAND)}"
            )
    try:
        content = _with_paths_below(path.parent, read_mapping(path, where, StudyFile.model_fields))
        file = StudyFile.model_validate(content)
    except ValidationError as error:
        raise UsageError(f"{where}: {explain(error, StudyFile)}") from error
    return with_recipes(path.stem, file, where, path.parent)


def _with_paths_below(folder: Path, content: dict[Any, Any]) -> dict[Any, Any]:
    """Return a study's content with the relative paths of its split taken from the file's folder."""
    split = content.get("split")
    if not isinstance(split, Mapping):
        return content
    stated = {key: read_as(str | None, split.get(key)) for key in ("data_root", "old_classes", "metadata")}
    paths = {key: path for key, path in stated.items() if isinstance(path, str)}
    source = split.get("source")
    if isinstance(source, str) and "://" not in source:
        is_word = re.fullmatch(r"[\w-]+", source)
        if not is_word or (source not in NAMES and (folder / source).is_dir()):
            paths["source"] = source
    below = {key: str(folder / Path(value).expanduser()) for key, value in paths.items()}
    return {**content, "split": {**split, **below}}


def with_recipes(name: str, file: StudyFile, where: str, beside: Path = Path()) -> Study:
    """Read the recipes of the runs of a study, each once for all seeds.

    Args:
        name: of the study.
        file: the content of its file.
        where: the name of the study in messages.
        beside: the folder of the file, from which paths of recipes are taken.

    Raises:
        UsageError: a recipe, a key or a value is not valid; the message names the part of the study.
    """

    def read(part: str, name_or_file: str, method: str, *changes: Mapping[str, Any]) -> Recipe:
        keys = {key: value for change in changes for key, value in _dotted(change)}
        for key in keys:
            if key in DECIDED:
                raise UsageError(f"{where}: {part}: set: {key}: is not set so; {DECIDED[key]}")
        is_name = re.fullmatch(r"[\w-]+", name_or_file)
        source = name_or_file if is_name else str(beside / Path(name_or_file).expanduser())
        _refuse_no_recipe(source, method, f"{where}: {part}: {name_or_file}")
        try:
            return load_recipe(source, (), {**keys, "method.name": method})
        except UsageError as error:
            raise UsageError(f"{where}: {part}: {error}") from error

    def settings_of(update: UpdateRow) -> dict[str, Any]:
        if update.init is None:
            return update.set
        if "method.init" in dict(_dotted(update.set)):
            raise UsageError(f"{where}: {update.name}: set: method.init: stands there as init: too; keep one")
        return update.set | {"method.init": update.init}

    plain, new = "no-treatment", file.new.recipe or file.recipe
    if file.old_models:
        old = {
            model.run: read(f"old model {model.name}", file.recipe, plain, file.set, model.set)
            for model in file.old_models
        }
    else:
        old = {OLD: read("old model", file.recipe, plain, file.set)}
    return Study(
        name=name,
        file=file,
        old=old,
        new=read("new", new, plain, file.set, file.new.set),
        updates={
            update.name: read(update.name, new, update.method, file.set, file.new.set, settings_of(update))
            for update in file.updates
        },
    )


def _refuse_no_recipe(name_or_file: str, method: str, where: str) -> None:
    """Refuse a file that is no valid recipe; a preset is not looked at.

    The message does not show the file's text, which the caller may have no right to read.

    Raises:
        UsageError: the file is no valid recipe; the message begins with ``where``.
    """
    if not Path(name_or_file).expanduser().is_file():
        return
    try:
        load_recipe(name_or_file, (), {"method.name": method})
    except UsageError as error:
        found = re.search(r"line \d+, column \d+", str(error))
        position = "" if found is None else f" ({found[0]})"
        raise UsageError(
            f"{where}: is no valid recipe{position}; to see the fault, run mptctl train-ref "
            f"--print-recipe --recipe {name_or_file}"
        ) from None


def checked_seeds(seeds: list[int]) -> list[int]:
    """Return seeds as they are, once they are known to be allowed.

    Raises:
        ValueError: a seed is out of range or stands there twice, or there are more than `MOST_SEEDS`.
    """
    if len(seeds) > MOST_SEEDS:
        raise ValueError(f"seeds: {len(seeds):,} of them: at most {MOST_SEEDS:,}; name fewer")
    counts = Counter(seeds)
    for seed in seeds:
        if not 0 <= seed <= LARGEST_SEED or counts[seed] > 1:
            raise ValueError(f"seeds: {seed}: must be from 0 to {LARGEST_SEED}, each of them once")
    return seeds


def _dotted(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of a mapping with dotted or nested keys, all keys dotted (``optim.lr``)."""
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
