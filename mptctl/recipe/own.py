"""Methods, criteria and networks of one's own: how a plugin adds them, and how they are found by name."""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from mptctl.errors import UsageError, did_you_mean, one_line
from mptctl.files.explained import explain, nearest, shown
from mptctl.files.model import Typed
from mptctl.names import METHOD_NAMES, PLUGINS, Role
from mptctl.recipe.criterion import CriterionName

if TYPE_CHECKING:
    from mptctl.recipe.fields import Recipe

Kind = Literal["method", "criterion", "network"]
# Group of entry points of each kind, in which installed packages name their parts.
GROUPS: dict[Kind, str] = {
    "method": "mptctl.methods",
    "criterion": "mptctl.criteria",
    "network": "mptctl.networks",
}
# Names that are ours; names of networks are looked for when one is built.
OURS: dict[Kind, tuple[str, ...]] = {
    "method": METHOD_NAMES,
    "criterion": get_args(CriterionName),
    "network": (),
}
# Key of the recipe that names a part of each kind; its settings are in the same group.
KEYS: dict[Kind, str] = {"method": "method.name", "criterion": "criterion.name", "network": "model.arch"}
# The arguments of the function of each kind.
ARGUMENTS: dict[Kind, tuple[str, ...]] = {
    "method": ("logits", "target", "old_logits", "ref_logits", "settings"),
    "criterion": ("logits", "target", "settings"),
    "network": ("settings",),
}

Function = TypeVar("Function", bound=Callable[..., Any])


class NoSettings(BaseModel):
    """The settings of a part that has none."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class Own:
    """A method, a criterion or a network of one's own.

    Attributes:
        kind, name: as in the recipe.
        function: of what `ARGUMENTS` says.
        settings: the model of its settings.
        teachers: of a method: the models whose logits it is given.
        file: that it stands in.
        source: text of that file.
    """

    kind: Kind
    name: str
    function: Callable[..., Any]
    settings: type[BaseModel]
    teachers: frozenset[Role]
    file: Path
    source: str

    @property
    def digest(self) -> str:
        """SHA-256 of the file's text, in hexadecimal."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    @property
    def kept_name(self) -> str:
        """The name of the file's copy in run folders, another one for each text."""
        return f"{self.file.stem}-{self.digest[:8]}.py"

    def settings_in(self, recipe: Recipe) -> dict[str, Any]:
        """Its settings in a recipe that names it."""
        settings: dict[str, Any] = getattr(recipe, KEYS[self.kind].partition(".")[0]).settings
        return settings

    def read_settings(self, given: dict[str, Any], where: str) -> dict[str, Any]:
        """Validate settings, and return them as plain values, with defaults for those that are not given.

        Raises:
            UsageError: a setting is unknown, missing or not valid; the message begins with ``where``.
        """
        fields = self.settings.model_fields
        for key in given:
            if key not in fields:
                known = nearest(key, list(fields)) if fields else f"; {self.name} has no settings"
                raise UsageError(f"{where}.{key}: no such setting of {self.name}{known}")
        typed = create_model(self.settings.__name__, __base__=(Typed, self.settings))
        try:
            return typed.model_validate(given).model_dump(mode="json")
        except ValidationError as error:
            text, location = explain(error, typed), error.errors()[0]["loc"]
            if not location:
                raise UsageError(f"{where}: {text}") from error
            if not text.startswith(str(location[0])):  # the message of a validator does not name its key
                text = f"{location[0]}: {text}"
            raise UsageError(f"{where}.{text}") from error
        except Exception as error:
            raise UsageError(f"{where}: {describe_failure(error, self.file)}; in {self.file}") from error


# The registered parts, by kind and name, and the files that were run.
_OWN: dict[tuple[Kind, str], Own] = {}
_RUN: set[Path] = set()


def method(name: str, teachers: Iterable[str] = ()) -> Callable[[Function], Function]:
    """Make a function a training method, which recipes, commands and studies take by its name.

    The function gets (logits, target, old_logits, ref_logits, settings): the student's logits (N, C), old
    classes first; labels (N,) 0..C-1; the old model's logits (N, C_old) and the reference's (N, C), None for
    a teacher that is not asked for; and its settings. Logits are float32 or float64. It returns the terms of
    the loss by name, each (N,), one number a row, differentiable in the logits; the loss is the mean of their
    sum. Settings are a pydantic model, named as the type of the last argument: each field is the recipe key
    ``method.settings.FIELD``.

    Args:
        name: of the method.
        teachers: ``"old"``, ``"ref"``, or both.

    Raises:
        UsageError: the name is taken, a teacher is unknown, or the function takes other arguments.
    """
    asked = [teachers] if isinstance(teachers, str) else list(teachers)
    for role in asked:
        if role not in list(Role):
            raise UsageError(f"method {name}: no such teacher: {role!r}{nearest(str(role), list(Role))}")
    return lambda function: _register("method", name, function, frozenset(map(Role, asked)))


def criterion(name: str) -> Callable[[Function], Function]:
    """Make a function a criterion, the base term of every method, which recipes take as ``criterion.name``.

    The function gets (logits, target, settings): logits (N, C) with the method's bias, labels (N,) 0..C-1,
    and its settings, whose fields are recipe keys ``criterion.settings.FIELD``. It returns (N,), one loss a
    row, differentiable in the logits.

    Args:
        name: of the criterion.

    Raises:
        UsageError: the name is taken, or the function takes other arguments.
    """
    return lambda function: _register("criterion", name, function)


def network(name: str) -> Callable[[Function], Function]:
    """Make a function, or a module's class, a network, which recipes take as ``model.arch``.

    It gets its settings, whose fields are recipe keys ``model.settings.FIELD``, and returns a module from
    pictures (B, 3, S, S) to features (B, D). The linear classifier behind the features is added to it, so
    that heads, embeddings, ``import`` and ``export`` find it.

    Args:
        name: of the network.

    Raises:
        UsageError: the name is taken, or the function takes other arguments.
    """
    return lambda function: _register("network", name, function)


def _register(kind: Kind, name: str, function: Function, teachers: frozenset[Role] = frozenset()) -> Function:
    """Put a function into the table of its kind, and return it."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
        raise UsageError(f"{kind} {name!r}: cannot be a name; take letters, digits, . _ and -")
    file, source = _source_of(function)
    if name in OURS[kind]:
        raise UsageError(f"{kind} {name}: the name is taken: is one of mptctl; give it another name")
    other = _OWN.get((kind, name))
    # A cell of a notebook is no file, and may be run again.
    if other is not None and other.file != file and other.file.is_file():
        raise UsageError(f"{kind} {name}: the name is taken: is in {other.file}; give it another name")
    parameters = list(inspect.signature(function).parameters.values())
    if len(parameters) != len(ARGUMENTS[kind]):
        raise UsageError(
            f"{kind} {name}: takes {len(parameters)} arguments, must take {len(ARGUMENTS[kind])}: "
            f"{', '.join(ARGUMENTS[kind])}"
        )
    settings = parameters[-1].annotation
    if isinstance(settings, str):  # the file has `from __future__ import annotations`
        settings = getattr(sys.modules.get(function.__module__), settings, settings)
    if settings in (inspect.Parameter.empty, None):
        settings = NoSettings
    if not isinstance(settings, type) or not issubclass(settings, BaseModel):
        raise UsageError(
            f"{kind} {name}: settings: must be a pydantic model in the same file, got {settings}"
        )
    _OWN[kind, name] = Own(kind, name, function, settings, teachers, file, source)
    return function


def _source_of(function: Callable[..., Any]) -> tuple[Path, str]:
    """The file of a function and its text. A notebook is no such file: the text is that of the function."""
    try:
        file = Path(inspect.getsourcefile(function) or "").resolve()
        if file.is_file():
            return file, file.read_text(encoding="utf-8")
        return file, inspect.getsource(function)
    except (OSError, TypeError):
        return Path(f"{function.__module__}.py"), ""


def load_plugins(files: Iterable[str] = ()) -> None:
    """Run files of plugins and those of `MPTCTL_PLUGINS`, each once; the variable then names them all.

    So processes that are started later, in whichever folder, run them too.

    Raises:
        UsageError: a file cannot be read or run, or registers nothing; nothing of it stays registered.
    """
    named = [*os.environ.get(PLUGINS, "").split(os.pathsep), *files]
    paths = list(dict.fromkeys(Path(file).expanduser().resolve() for file in named if file))
    for path in paths:
        if path not in _RUN:
            _run_file(path)
    if paths:
        os.environ[PLUGINS] = os.pathsep.join(map(str, paths))


def _run_file(path: Path) -> None:
    """Run the file of a plugin as a module; UsageError if that fails or registers nothing."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"plugin {path}: {one_line(error)}; name a Python file") from error
    module = ModuleType(f"mptctl_plugin_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    registered_before = dict(_OWN)
    _RUN.add(path)  # before it runs: its code may call mptctl, which runs all plugins that have not run
    with _all_or_nothing(f"plugin {path}", path):
        exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102  # a person named this file
        if registered_before == _OWN:
            raise UsageError(
                'registers nothing; put @mptctl.method("NAME"), criterion or network before a function'
            )


@contextmanager
def _all_or_nothing(what: str, path: Path) -> Iterator[None]:
    """Register nothing where the code of a plugin fails, and say in one line what failed, and where.

    What the code prints goes to standard error: standard output is the command's.

    Args:
        what: the plugin, for the message.
        path: its file, whose line is named.
    """
    before = dict(_OWN)
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (Exception, SystemExit) as error:
        _OWN.clear()
        _OWN.update(before)
        _RUN.discard(path)
        if isinstance(error, UsageError):
            raise UsageError(f"{what}: {error}") from error
        raise UsageError(f"{what}: {describe_failure(error, path)}") from error


def describe_failure(error: BaseException, path: Path) -> str:
    """Say in one line, with the line of the file, which error the code of a plugin raised."""
    if isinstance(error, SyntaxError):
        line, message = error.lineno, error.msg
    else:
        line, message = None, one_line(error)
        for frame in traceback.extract_tb(error.__traceback__):
            if Path(frame.filename).resolve() == path:
                line = frame.lineno  # the last one of the file
    where = "" if line is None else f"line {line}: "
    return f"{where}{type(error).__name__}: {message}"


@cache
def _offered() -> dict[tuple[Kind, str], EntryPoint]:
    """The entry points of installed packages, by kind and name; nothing of theirs is imported."""
    found = entry_points()
    return {(kind, each.name): each for kind, group in GROUPS.items() for each in found.select(group=group)}


def find_own(kind: Kind, name: str) -> Own | None:
    """Find a part of one's own by its name; None where there is none, and for a part of ours.

    Files of `MPTCTL_PLUGINS` are run, and of an installed package the entry point of this name is imported.

    Raises:
        UsageError: a plugin cannot be run.
    """
    if name in OURS[kind]:
        return None
    load_plugins()
    if (kind, name) not in _OWN and (kind, name) in _offered():
        point = _offered()[kind, name]
        what = f"entry point {name} ({point.value}) of {GROUPS[kind]}"
        with _all_or_nothing(what, Path(point.module)):
            point.load()
            if (kind, name) not in _OWN:
                raise UsageError(f"registers no {kind} of that name; name the entry point as the {kind}")
    return _OWN.get((kind, name))


def own_names(kind: Kind) -> list[str]:
    """The names of all parts of one's own of a kind, sorted; of installed packages nothing is imported."""
    load_plugins()
    return sorted({name for each, name in (*_OWN, *_offered()) if each == kind} - set(OURS[kind]))


def all_names(kind: Kind) -> list[str]:
    """The names of all parts of a kind, ours first; of networks only own ones are known here."""
    return [*OURS[kind], *own_names(kind)]


def registered() -> list[Own]:
    """All parts of one's own that were loaded so far."""
    return list(_OWN.values())


def own_parts(recipe: Recipe) -> list[Own]:
    """The parts of one's own that a recipe names, as far as they are here."""
    found = [find_own(kind, attrgetter(key)(recipe)) for kind, key in KEYS.items()]
    return [own for own in found if own is not None]


def refuse_unknown(kind: Kind, name: str, problem: str = "") -> None:
    """Refuse a name that no part has.

    Args:
        kind: of the part.
        name: of the part.
        problem: beginning of the message; default: ``no such KIND: NAME``.

    Raises:
        UsageError: suggests the nearest name, or else says how a plugin is given.
    """
    if name in OURS[kind] or find_own(kind, name) is not None:
        return
    names = all_names(kind)
    message = (problem or f"no such {kind}: {shown(name)}") + nearest(name, names)
    if not did_you_mean(name, names):
        message += f"; if it is one of your own, give its file with --plugin FILE.py or {PLUGINS}=FILE.py"
    raise UsageError(message)
