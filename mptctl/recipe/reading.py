"""Reads a recipe: a preset or a file as safe YAML, and over it what ``--set`` and the verb say."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, reduce
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from mptctl.errors import UsageError, one_line
from mptctl.files.explained import nearest
from mptctl.files.model import NOTHING, Plain, is_list, read_as
from mptctl.files.yaml_text import read_yaml, refuse_unknown_keys
from mptctl.names import METHOD_NAMES, Source
from mptctl.recipe.criterion import CriterionRecipe, refuse_idle
from mptctl.recipe.data import DataRecipe, with_current_data_keys
from mptctl.recipe.fields import Recipe
from mptctl.recipe.timm_pictures import keys_of_network
from mptctl.recipe.validation import differences, recipe_keys, validate_recipe

# Presets that a split's source stands for when no recipe is named.
DEFAULT_PRESET: dict[Source, str] = {
    "characters": "characters",
    "digits": "digits",
    "cifar10": "cifar10",
    "cifar100": "cifar100",
    "imagefolder": "imagenet",
    "table": "imagenet",
    "webdataset": "imagenet",
}
# The command that lists presets and studies.
LISTS = "mptctl recipes"
# The keys of a recipe that say how large a picture is made in evaluation.
SIZES = ("image_size", "eval_resize")
# Largest allowed ratio of the shorter side after resizing to the side of the crop that the model sees; above
# it the model sees less than half of a picture. Published models have 1.00 to 1.29 (timm's crop_pct of 0.773
# to 1).
LARGEST_RESIZE = 1.5
# A recipe is a page of text; more is a mistake or an attack.
MAX_RECIPE_BYTES = 256 * 1024
_NO_TEXT = f"is not a text file in UTF-8, as YAML is; name a YAML file, or what {LISTS} lists"


def preset_folder() -> Path:
    """Folder of the presets: inside an installed package, or beside it in a checkout."""
    package = Path(__file__).parent.parent
    installed = package / "configs"
    return installed if installed.is_dir() else package.parent / "configs"


def preset_names() -> list[str]:
    """Names that ``--recipe`` takes, sorted."""
    return sorted(path.stem for path in preset_folder().glob("*.yaml"))


def load_recipe(
    name_or_file: str,
    overrides: Sequence[str] = (),
    fixed: Mapping[str, Any] | None = None,
    *,
    base: str | None = None,
    of_run: bool = False,
) -> Recipe:
    """Read a preset or a file, apply overrides, and validate the whole.

    Later ones win: the preset, the config of the network in timm, the file, the overrides, and what the verb
    fixes. Where a picture size is changed alone, the size before the centre crop follows in proportion.

    Args:
        name_or_file: a preset's name, or a path to a YAML file.
        overrides: ``key.sub=value`` strings, applied in order; values are read as a file's are.
        fixed: dotted keys and values that the verb decides; they win over everything.
        base: the preset that says what a file leaves open; None: the defaults do. A preset is complete by
            itself.
        of_run: the file is what a run wrote; it is read whatever its sizes are.

    Raises:
        UsageError: no such recipe, a file that is not safe YAML, a key or value that is not valid, or a
            picture size that the size before the centre crop does not fit.
    """
    # Each under its current names, so that an override wins whichever name of a key it and the file have.
    content = _with_current_key_names(_read_preset_or_file(name_or_file))
    changes = _read_overrides(overrides)
    preset, file = content, dict[Any, Any]()
    if _is_file(name_or_file):
        file = content
        preset = {} if base is None else _with_current_key_names(_read_preset_or_file(base))
    layers = (file, changes, _all_nested(fixed or {}))
    whole = reduce(_merge_with_sizes, layers, preset)
    if not of_run and isinstance(model := whole.get("model"), dict):
        of_network = {"data": keys_of_network(str(model.get("arch")))}
        whole = reduce(_merge_with_sizes, (of_network, *layers), preset)
    recipe = validate_recipe(_with_class_weights_read(whole, name_or_file), name_or_file)
    if not of_run:
        _refuse_small_crop(recipe.data, name_or_file)
    set_keys = [override.partition("=")[0] for override in overrides]
    where = f"recipe {name_or_file}"
    _refuse_idle_criterion(recipe.criterion, content.get("criterion") or {}, where)
    refuse_idle(recipe.criterion, _of_criterion([*set_keys, *(fixed or {})]), where)
    return recipe


def _refuse_idle_criterion(criterion: CriterionRecipe, written: Mapping[str, Any], where: str) -> None:
    """Refuse settings of a file that change nothing under the criterion that was chosen.

    The recipe of a run holds every key: of a file only changed values count. It may choose another criterion
    than --set does over it, and have that one's settings.

    Args:
        criterion: of the whole recipe.
        written: the group of the criterion as the file or preset has it.
        where: what to call the recipe in a message.
    """
    defaults = CriterionRecipe.model_fields
    changed = [
        key
        for key, value in written.items()
        if key in defaults and _typed_value(f"criterion.{key}", value) != defaults[key].default
    ]
    refuse_idle(criterion, changed, where, names=[written.get("name", defaults["name"].default)])


def _read_overrides(overrides: Sequence[str]) -> dict[Any, Any]:
    """The nested keys and values of ``key.sub=value`` strings, under their current names."""
    changes: dict[Any, Any] = {}
    known = recipe_keys()
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--set {override}: not of the form key.sub=value, such as optim.lr=0.1")
        field = known.get(key)
        if field is not None and is_list(field.annotation) and value.strip() not in NOTHING:
            # Brackets are a shell's, so that a list may go without them: 0.5,0.5,0.5.
            value = value if value.lstrip().startswith("[") else f"[{value}]"
        change = _nested(key, _read_yaml(value, f"--set {key}"))
        changes = _merge(changes, _with_current_key_names(change))
    return changes


def _of_criterion(keys: Iterable[str]) -> list[str]:
    """Keys of the criterion among dotted keys."""
    return [key.removeprefix("criterion.") for key in keys if key.startswith("criterion.")]


def _merge_with_sizes(content: dict[Any, Any], change: Mapping[Any, Any]) -> dict[Any, Any]:
    """Merge ``change`` over ``content``, and keep the keys of picture sizes consistent.

    Setting eval_crop clears eval_resize, and the other way round; image_size set alone scales eval_resize.
    """
    merged = _merge(content, change)
    before, said = content.get("data"), change.get("data")
    if not isinstance(before, dict) or not isinstance(said, Mapping):
        return merged
    if said.get("eval_crop") not in (None, *NOTHING) and "eval_resize" not in said:
        return _merge(merged, {"data": {"eval_resize": None}})  # what is said last stands
    if said.get("eval_resize") not in (None, *NOTHING) and "eval_crop" not in said:
        merged = _merge(merged, {"data": {"eval_crop": None}})
    if "image_size" not in said or "eval_resize" in said:
        return merged
    try:
        was = DataRecipe.model_validate({key: before[key] for key in SIZES if key in before})
        now = DataRecipe.model_validate({"image_size": said["image_size"]})
    except ValidationError:
        return merged  # which is refused when the whole is validated
    if was.eval_resize is None:
        return merged
    resize = round(now.image_size * was.eval_resize / was.image_size)
    return _merge(merged, {"data": {"eval_resize": resize}})


def _refuse_small_crop(data: DataRecipe, where: str) -> None:
    """Refuse sizes of evaluation by which the model sees less than half of each picture."""
    if data.resized_side > LARGEST_RESIZE * data.image_size and data.eval_crop is not None:
        raise UsageError(
            f"recipe {where}: data.eval_crop {data.eval_crop:g}: the model sees little of each picture; set "
            f"it to {1 / LARGEST_RESIZE:.2f} to 1, or leave it out"
        )
    if data.eval_resize is not None and data.eval_resize > LARGEST_RESIZE * data.image_size:
        raise UsageError(
            f"recipe {where}: data.eval_resize {data.eval_resize}: more than {LARGEST_RESIZE:g} times "
            f"data.image_size {data.image_size}, so that the model sees little of each picture; leave "
            f"data.eval_resize out, or set it to {data.image_size} to "
            f"{int(LARGEST_RESIZE * data.image_size)}"
        )


def describe_missing_keys(name_or_file: str, base: str) -> str | None:
    """Say in a sentence which keys a file leaves to a preset or the defaults.

    None stands for a preset, and for a file that says every key.

    Args:
        name_or_file: as `load_recipe` takes it, which reads it.
        base: the preset that says what the file leaves open.
    """
    if not _is_file(name_or_file):
        return None
    said = _flat(_with_current_key_names(_read_preset_or_file(name_or_file)))
    known = recipe_keys()
    taken = [
        f"{key}={_typed_value(key, value)}"
        for key, value in _flat(_with_current_key_names(_read_preset_or_file(base))).items()
        if key not in said
    ]
    left = len(known) - len(said) - len(taken)
    if not taken and left <= 0:
        return None
    return (
        f"{name_or_file} says {len(said)} of {len(known)} keys; from the preset {base}: "
        f"{', '.join(taken) or 'none'}; {left} by default"
    )


def _typed_value(key: str, value: object) -> object:
    """A value converted to its key's type; unchanged where the key is unknown or the value is invalid."""
    try:
        return read_as(recipe_keys()[key].annotation, value)
    except (KeyError, PydanticCustomError):
        return value


def _is_file(name_or_file: str) -> bool:
    return Path(name_or_file).expanduser().is_file()


def _flat(content: Mapping[Any, Any]) -> dict[str, Any]:
    """``{group: {key: value}}`` as ``{"group.key": value}``; groups that are not mappings are left out."""
    groups = {group: keys for group, keys in content.items() if isinstance(keys, dict)}
    return {f"{group}.{key}": value for group, keys in groups.items() for key, value in keys.items()}


def change_recipe(recipe: Recipe, fixed: Mapping[str, Any], where: str) -> Recipe:
    """The recipe with other values of some keys.

    Args:
        recipe: stays as it is.
        fixed: dotted keys and their values.
        where: what to call it in a message.

    Raises:
        UsageError: a key or value that is not valid.
    """
    content = _merge(recipe.model_dump(), _all_nested(fixed))
    recipe = validate_recipe(_with_class_weights_read(content, where), where)
    refuse_idle(recipe.criterion, _of_criterion(fixed), f"recipe {where}")
    return recipe


def _with_class_weights_read(content: dict[Any, Any], where: str) -> dict[Any, Any]:
    """Replace a file's name in `criterion.class_weights` by what it holds: a recipe is complete by itself."""
    criterion = content.get("criterion")
    said = criterion.get("class_weights") if isinstance(criterion, Mapping) else None
    if not isinstance(said, str) or said in NOTHING or not Path(said).expanduser().is_file():
        return content
    weights = read_mapping(Path(said).expanduser(), f"recipe {where}: criterion.class_weights {said}")
    return _merge(content, {"criterion": {"class_weights": weights}})


def _with_current_key_names(content: dict[Any, Any]) -> dict[Any, Any]:
    """Rename old keys to their current names; only `data` has any."""
    return content | ({"data": with_current_data_keys(content["data"])} if "data" in content else {})


def _nested(key: str, value: Any) -> dict[str, Any]:
    """``optim.lr`` and 0.1 as ``{"optim": {"lr": 0.1}}``."""
    for part in reversed(key.split(".")):
        value = {part: value}
    nested: dict[str, Any] = value
    return nested


def _all_nested(values: Mapping[str, Any]) -> dict[Any, Any]:
    """Values by dotted keys as one nested mapping."""
    return reduce(_merge, (_nested(key, value) for key, value in values.items()), dict[Any, Any]())


def _merge(one: dict[Any, Any], other: Mapping[Any, Any]) -> dict[Any, Any]:
    """``one`` with the values of ``other`` over it, mappings key by key, everything else as a whole."""
    merged = dict(one)
    for key, value in other.items():
        there = merged.get(key)
        if isinstance(there, dict) and isinstance(value, Mapping):
            merged[key] = _merge(there, value)
        else:
            merged[key] = value
    return merged


def _read_preset_or_file(name_or_file: str) -> dict[Any, Any]:
    """The groups and keys of a YAML file, or of a preset where there is no such file; values stay text."""
    where = f"recipe {name_or_file}"
    path = Path(name_or_file).expanduser()
    if not path.is_file():
        named = preset_folder() / f"{name_or_file}.yaml"
        if not named.is_file():
            if name_or_file in METHOD_NAMES:
                raise UsageError(
                    f"{where}: is a method, which a command or method.name names; a recipe is one of "
                    f"{', '.join(preset_names())}, or a YAML file"
                )
            raise UsageError(f"{where}: no such file or preset{nearest(name_or_file, preset_names(), LISTS)}")
        path = named
    content = read_mapping(path, where)
    # Before overrides are merged: they would replace a bad group, and so hide it.
    for group, keys in content.items():
        is_empty = isinstance(keys, Plain) and keys in NOTHING
        if group in Recipe.model_fields and not isinstance(keys, dict) and not is_empty:
            raise UsageError(f"{where}: {group}: must be a mapping of keys, got {keys!r}")
    return content


def read_mapping(path: Path, where: str, keys: Collection[str] = ()) -> dict[Any, Any]:
    """The mapping that a YAML file holds, read safely; an empty one where it holds nothing.

    Args:
        path: of the file.
        where: what to call it in a message.
        keys: the only keys that are allowed; empty: any.

    Raises:
        UsageError: it cannot be read, is too large, is not safe YAML, or holds something else; where `keys`
            are given without any text of the file.
    """
    try:
        # So many characters, not bytes, since a cut within a character would be an error of its encoding.
        with path.open(encoding="utf-8", newline="") as stream:
            text = stream.read(MAX_RECIPE_BYTES + 1)
        if "\0" in text:
            raise UsageError(f"{where}: {_NO_TEXT}")
        content = _read_yaml(text, where)
        if keys and isinstance(content, dict):
            refuse_unknown_keys(text, keys, where)
    except UnicodeDecodeError as error:
        raise UsageError(f"{where}: {_NO_TEXT}") from error
    except OSError as error:
        raise UsageError(f"{where}: {one_line(error)}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        kind = "a list" if isinstance(content, list) else "text"
        raise UsageError(f"{where}: must be a mapping of keys, got {kind}")
    return content


def _read_yaml(text: str, where: str) -> Any:
    """Plain data of a text: a whole recipe, or one value of ``--set``."""
    if len(text.encode(errors="surrogateescape")) > MAX_RECIPE_BYTES:
        raise UsageError(f"{where}: larger than {MAX_RECIPE_BYTES // 1024} kB; this is not a recipe")
    return read_yaml(text, where)


class NearestPreset(NamedTuple):
    """A preset, and what a recipe changes of it.

    Attributes:
        name: of the preset.
        changes: dotted key, the recipe's value, the preset's value.
    """

    name: str
    changes: list[tuple[str, Any, Any]]


@cache
def _presets() -> dict[str, Recipe]:
    return {name: load_recipe(name) for name in preset_names()}


def nearest_preset(recipe: Recipe) -> NearestPreset:
    """The preset with the fewest keys of another value; of several the first by name."""
    found = (NearestPreset(name, differences(recipe, preset)) for name, preset in _presets().items())
    return min(found, key=lambda preset: len(preset.changes))
