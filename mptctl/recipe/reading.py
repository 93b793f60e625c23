"""Reads a recipe from a preset or a YAML file, and applies overrides of ``--set`` and of the command."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from operator import attrgetter
from pathlib import Path
from typing import Any

from pydantic_core import PydanticCustomError

from mptctl.errors import UsageError, one_line
from mptctl.files.explained import nearest
from mptctl.files.model import NOTHING, Plain, is_list, read_as
from mptctl.files.yaml_text import read_yaml, refuse_unknown_keys
from mptctl.names import Source
from mptctl.recipe.criterion import refuse_unused_settings
from mptctl.recipe.data import DataRecipe
from mptctl.recipe.fields import Recipe
from mptctl.recipe.own import KEYS, all_names
from mptctl.recipe.timm_pictures import picture_keys_of_network
from mptctl.recipe.validation import recipe_keys, validate_recipe

# For each source of a split, the preset that is used if no recipe is named.
DEFAULT_PRESET: dict[Source, str] = {
    "characters": "characters",
    "digits": "digits",
    "cifar10": "cifar10",
    "cifar100": "cifar100",
    "imagefolder": "imagenet",
    "table": "imagenet",
    "webdataset": "imagenet",
}
# Keys that must be equal if a model begins with the weights of another model.
SAME_NETWORK = (
    "model.arch", "model.stem", "model.embedding_dim", "model.head", "model.head_scale", "model.settings",
    "data.image_size", "data.mean", "data.std",
)  # fmt: skip
# Keys of the preparation of pictures that may differ, but are copied too.
PREPARATION = ("data.interpolation", "data.eval_resize", "data.exif")
# Command that lists presets and studies, for messages.
LIST_COMMAND = "mptctl recipes"
# Largest ratio of the shorter side after resizing to the side of the crop. Above 1.5 the model sees less than
# half of a square picture. Published models have 1.00 to 1.29 (timm's crop_pct of 0.773 to 1).
LARGEST_RESIZE = 1.5
# A recipe is a page of text; a larger file is a mistake or an attack.
MAX_RECIPE_BYTES = 256 * 1024
_NO_TEXT = f"is not a text file in UTF-8, as YAML is; name a YAML file, or what {LIST_COMMAND} lists"


def preset_folder() -> Path:
    """The folder of presets: in the installed package, or beside the package in a checkout."""
    package = Path(__file__).parent.parent
    installed = package / "configs"
    return installed if installed.is_dir() else package.parent / "configs"


def preset_names() -> list[str]:
    """List the names of presets, which ``--recipe`` takes, sorted."""
    return sorted(path.stem for path in preset_folder().glob("*.yaml"))


def load_recipe(
    name_or_file: str,
    overrides: Sequence[str] = (),
    fixed: Mapping[str, Any] | None = None,
    *,
    base: str | None = None,
    described: Mapping[str, Any] | None = None,
    of_run: bool = False,
) -> Recipe:
    """Read a preset or a file, apply overrides, and validate the result.

    A key's value comes from the last of these that sets the key: preset, timm's config of the network, file,
    ``described``, overrides, ``fixed``. If only `data.image_size` changes, `data.eval_resize` changes in
    proportion.

    Args:
        name_or_file: a preset's name, or the path of a YAML file.
        overrides: ``key.sub=value`` strings, applied in order; values are YAML.
        fixed: values by dotted key that the command sets.
        base: preset for keys that a file does not set; None: the defaults. A preset needs no base.
        described: values by key of `data` that come with published weights.
        of_run: the file was written by a run: timm's config is not used, and any picture sizes are allowed.

    Raises:
        UsageError: there is no such recipe, the file is not safe YAML, a key or value is not valid, or a crop
            is too small for the resized picture.
    """
    content = _read_preset_or_file(name_or_file)
    changes = _read_overrides(overrides)
    # A preset is the lowest layer; a file is a layer over its base.
    preset, file = content, dict[Any, Any]()
    if _is_file(name_or_file):
        file = content
        preset = {} if base is None else _read_preset_or_file(base)
    layers = (file, {"data": described or {}}, changes, _nest_all(fixed or {}))
    merged = reduce(_merge_with_sizes, layers, preset)
    # All layers together name the network; its config sets only keys that no layer sets.
    model = merged.get("model")
    if not of_run and isinstance(model, dict):
        size = _typed_value("data.image_size", _group_of(merged).get("image_size", DataRecipe().image_size))
        keys = picture_keys_of_network(str(model.get("arch")), size) if isinstance(size, int) else {}
        set_by_layers = {key for layer in layers for key in _group_of(layer)}
        merged = _merge(merged, {"data": {key: keys[key] for key in keys.keys() - set_by_layers}})
    recipe = validate_recipe(_read_class_weights(merged, name_or_file), name_or_file, of_run=of_run)
    if not of_run:
        _refuse_small_crop(recipe.data, name_or_file)
    given = _criterion_keys([*(override.partition("=")[0] for override in overrides), *(fixed or {})])
    written = _group_of(content, "criterion").get("name")
    refuse_unused_settings(recipe.criterion, given, f"recipe {name_or_file}", written=written)
    return recipe


def _read_overrides(overrides: Sequence[str]) -> dict[Any, Any]:
    """Parse ``key.sub=value`` strings to nested keys and values."""
    changes: dict[Any, Any] = {}
    known = recipe_keys()
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--set {override}: not of the form key.sub=value, such as optim.lr=0.1")
        field = known.get(key)
        if field is not None and is_list(field.annotation) and value.strip() not in NOTHING:
            # A list may come without brackets, which have a meaning in shells: 0.5,0.5,0.5.
            value = value if value.lstrip().startswith("[") else f"[{value}]"
        changes = _merge(changes, _nest(key, _read_yaml(value, f"--set {key}")))
    return changes


def _group_of(layer: Mapping[Any, Any], name: str = "data") -> Mapping[Any, Any]:
    """A group of nested keys; empty where it is missing or no mapping."""
    group = layer.get(name)
    return group if isinstance(group, Mapping) else {}


def _criterion_keys(keys: Iterable[str]) -> list[str]:
    """The keys of the group `criterion` among dotted keys, without the group's name."""
    return [key.removeprefix("criterion.") for key in keys if key.startswith("criterion.")]


def _merge_with_sizes(content: dict[Any, Any], change: Mapping[Any, Any]) -> dict[Any, Any]:
    """Merge ``change`` over ``content``, and keep the keys of picture sizes consistent.

    A change of `image_size` without `eval_resize` scales `eval_resize` in proportion.
    """
    merged = _merge(content, change)
    before, changed = _group_of(content), _group_of(change)
    if "image_size" not in changed or "eval_resize" in changed:
        return merged
    old = _typed_value("data.image_size", before.get("image_size", DataRecipe().image_size))
    new = _typed_value("data.image_size", changed["image_size"])
    resize = _typed_value("data.eval_resize", before.get("eval_resize"))
    if not (isinstance(old, int) and isinstance(new, int) and isinstance(resize, int) and old > 0):
        return merged  # nothing to scale; validation of the whole recipe reports a wrong value
    return _merge(merged, {"data": {"eval_resize": round(new * resize / old)}})


def _refuse_small_crop(data: DataRecipe, where: str) -> None:
    """Raise UsageError if the centre crop is too small for the resized picture, see `LARGEST_RESIZE`."""
    if data.eval_resize is not None and data.eval_resize > LARGEST_RESIZE * data.image_size:
        raise UsageError(
            f"recipe {where}: data.eval_resize {data.eval_resize}: more than {LARGEST_RESIZE:g} times "
            f"data.image_size {data.image_size}, so that the model sees little of each picture; leave "
            f"data.eval_resize out, or set it to {data.image_size} to "
            f"{int(LARGEST_RESIZE * data.image_size)}"
        )


def _typed_value(key: str, value: object) -> object:
    """Convert a value to its key's type; return it unchanged if the key is unknown or the value invalid."""
    try:
        return read_as(recipe_keys()[key].annotation, value)
    except (KeyError, PydanticCustomError):
        return value


def _is_file(name_or_file: str) -> bool:
    """Tell whether a recipe's name is the path of a file; else it names a preset."""
    return Path(name_or_file).expanduser().is_file()


def change_recipe(recipe: Recipe, fixed: Mapping[str, Any], where: str) -> Recipe:
    """Return a copy of a recipe with other values of some keys.

    Args:
        recipe: not changed.
        fixed: new values by dotted key.
        where: name of the recipe in messages.

    Raises:
        UsageError: a key or value is not valid.
    """
    content = recipe.model_dump()
    for key in set(KEYS.values()) & fixed.keys():
        group, _, name = key.partition(".")
        if content[group][name] != fixed[key]:
            content[group].pop("settings", None)  # they are those of another part
    content = _merge(content, _nest_all(fixed))
    changed = validate_recipe(_read_class_weights(content, where), where)
    written = recipe.criterion.name
    refuse_unused_settings(changed.criterion, _criterion_keys(fixed), f"recipe {where}", written=written)
    return changed


def copy_network_keys(recipe: Recipe, run_recipe: Path, kept: Collection[str]) -> Recipe:
    """Return a recipe with the network and preparation of pictures of the run that the model begins with.

    Args:
        recipe: the model's recipe; not changed.
        run_recipe: ``recipe.yaml`` of the run; if there is no such file, ``recipe`` is returned.
        kept: dotted keys, or groups such as ``model``, that are not copied.

    Raises:
        UsageError: the file is no recipe, or its values conflict with the kept ones.
    """
    if not run_recipe.is_file():
        return recipe
    source = load_recipe(str(run_recipe), of_run=True)
    copied = {
        key: attrgetter(key)(source)
        for key in (*SAME_NETWORK, *PREPARATION)
        if key not in kept and key.partition(".")[0] not in kept
    }
    return change_recipe(recipe, copied, str(run_recipe))


def _read_class_weights(content: dict[Any, Any], where: str) -> dict[Any, Any]:
    """Replace the path of a file in `criterion.class_weights` by the weights in it.

    Returns:
        The changed copy; ``content`` if the value is not the path of a file.
    """
    criterion = content.get("criterion")
    file = criterion.get("class_weights") if isinstance(criterion, Mapping) else None
    if not isinstance(file, str) or file in NOTHING or not Path(file).expanduser().is_file():
        return content
    weights = read_mapping(Path(file).expanduser(), f"recipe {where}: criterion.class_weights {file}")
    return _merge(content, {"criterion": {"class_weights": weights}})


def _nest(key: str, value: Any) -> dict[str, Any]:
    """Nest a value by its dotted key: ``optim.lr`` and 0.1 give ``{"optim": {"lr": 0.1}}``."""
    for part in reversed(key.split(".")):
        value = {part: value}
    nested: dict[str, Any] = value
    return nested


def _nest_all(values: Mapping[str, Any]) -> dict[Any, Any]:
    """Nest values by their dotted keys in one mapping."""
    return reduce(_merge, (_nest(key, value) for key, value in values.items()), dict[Any, Any]())


def _merge(content: dict[Any, Any], change: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return ``content`` with the values of ``change``; nested mappings are merged key by key."""
    merged = dict(content)
    for key, value in change.items():
        former = merged.get(key)
        if isinstance(former, dict) and isinstance(value, Mapping):
            merged[key] = _merge(former, value)
        else:
            merged[key] = value
    return merged


def _read_preset_or_file(name_or_file: str) -> dict[Any, Any]:
    """Read groups and keys of a YAML file or, if there is no such file, of a preset; values stay text.

    Raises:
        UsageError: there is no such file or preset, or it is not a mapping of groups to mappings.
    """
    where = f"recipe {name_or_file}"
    path = Path(name_or_file).expanduser()
    if not path.is_file():
        preset = preset_folder() / f"{name_or_file}.yaml"
        if not preset.is_file():
            if name_or_file in all_names("method"):
                raise UsageError(
                    f"{where}: is a method, which a command or method.name names; a recipe is one of "
                    f"{', '.join(preset_names())}, or a YAML file"
                )
            raise UsageError(
                f"{where}: no such file or preset{nearest(name_or_file, preset_names(), LIST_COMMAND)}"
            )
        path = preset
    content = read_mapping(path, where)
    # Checked before overrides are merged, since an override would replace a bad group.
    for group, keys in content.items():
        is_empty = isinstance(keys, Plain) and keys in NOTHING
        if group in Recipe.model_fields and not isinstance(keys, dict) and not is_empty:
            raise UsageError(f"{where}: {group}: must be a mapping of keys, got {keys!r}")
    return content


def read_mapping(path: Path, where: str, keys: Collection[str] = ()) -> dict[Any, Any]:
    """Read the mapping in a YAML file safely; an empty mapping if the file is empty.

    Args:
        path: of the file.
        where: name of the file in messages.
        keys: allowed keys; empty: any. With ``keys``, a message about a key quotes no text of the file.

    Raises:
        UsageError: the file cannot be read, is too large, is not safe YAML, or is not a mapping.
    """
    try:
        # Characters are counted, not bytes: a cut inside a character would look like a wrong encoding.
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
    """Parse YAML, a recipe or a value of ``--set``, to plain data; UsageError over `MAX_RECIPE_BYTES`."""
    if len(text.encode(errors="surrogateescape")) > MAX_RECIPE_BYTES:
        raise UsageError(f"{where}: larger than {MAX_RECIPE_BYTES // 1024} kB; this is not a recipe")
    return read_yaml(text, where)
