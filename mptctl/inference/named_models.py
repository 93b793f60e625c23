"""From what a person names on the command line to predictions: files, run folders, checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mptctl.errors import UsageError
from mptctl.evaluation.reading.predictions import Predictions, read_predictions
from mptctl.evaluation.reading.readers import SUFFIXES, count_notes, has_predictions, is_predictions_file
from mptctl.names import READ_FORMATS, Part, Session

if TYPE_CHECKING:
    from mptctl.data.split import Split
    from mptctl.models.checkpoint import Checkpoint, CheckpointMeta

# Whom a comparison judges: it says itself where their runs are not finished.
JUDGED = ("old", "new")
# Endings of a model in a file, but for weights that somebody named otherwise.
MODELS = (".pt", *(f".{form}" for form in READ_FORMATS))


@dataclass(frozen=True)
class NamedModels:
    """The models that `load_predictions` found.

    Attributes:
        models: predictions by role, in the order asked for.
        split: the split of the run root, where a model of ours was asked; None with files alone.
        warnings: what a reader of the numbers should know.
        unfinished: sentences on those of `old` and `new` whose run is known not to have come to its end.
        identical: `old` and `new` are known to be one model.
        records: by role, for models of ours, the digest of the checkpoint and what it says of itself.
        validation: computes the predictions of `new` for the validation part, which are None without one;
            itself None where `old` or `new` is no model of ours, and for `load_predictions`.
    """

    models: dict[str, Predictions]
    split: Split | None = None
    warnings: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    identical: bool = False
    records: Mapping[str, tuple[str, CheckpointMeta]] = field(default_factory=dict)
    validation: Callable[[], Predictions | None] | None = None


def load_predictions(
    names: Mapping[str, str],
    session: Session,
    *,
    part: Part,
    renamed: frozenset[str] = frozenset(),
) -> NamedModels:
    """Predictions of models of any kind.

    Args:
        names: by role, such as `old` and `new`: a predictions file, a run's name, a run folder, or a ``.pt``
            file or export of ours; a file that is not there is looked for below the run root.
        session: where runs and the split are (run folders of another root, named by path, bring their own),
            and where models of ours compute.
        part: which pictures of the split models of ours are asked for; a file holds what it holds.
        renamed: class names of models of ours that the split need not know, since a class map does.

    Raises:
        DataError, NonFiniteError: a predictions file that is missing, damaged, or holds NaN.
        DataError: the split is damaged, or `old` is of another split and its classes are not this one's old
            ones.
        CheckpointError: no such model, a damaged one, or one of classes that the split does not know.
        UsageError: there is no split, or no such device.
    """
    loaded = _load(names, session, part, renamed)
    return loaded.under({role: role for role in names})


def load_updates(
    names: Mapping[str, str],
    news: Sequence[str],
    session: Session,
    *,
    part: Part,
    renamed: frozenset[str] = frozenset(),
) -> list[NamedModels]:
    """Predictions as of `load_predictions` with each of several new models; the others are read once.

    Args:
        names: the other models by role, `old` among them.
        news: the new models, each for the role `new`.
        session, part, renamed: as for `load_predictions`, whose errors it raises.

    Raises:
        UsageError: one new model is named twice.
    """
    if len(news) > 1:
        _refuse_twice(news, session.run_root)
    new_by_key = {f"new {number}": new for number, new in enumerate(news)}
    others = {role: name for role, name in names.items() if role != "old"}
    # In the order in which errors are said: of two wrong models, NEW before the noise floor or the baseline.
    loaded = _load({"old": names["old"], **new_by_key, **others}, session, part, renamed)
    updates = []
    for key, new in new_by_key.items():
        key_by_role = {"old": "old", "new": key, **{role: role for role in others}}
        found = loaded.under(key_by_role)
        updates.append(replace(found, validation=_validation_part(found, new, session)))
    return updates


def _validation_part(
    found: NamedModels, new: str, session: Session
) -> Callable[[], Predictions | None] | None:
    """Computes a new model's validation part when it is needed; None where old or new is no model of ours."""
    split = found.split
    if split is None or any(found.models[role].origin == "file" for role in JUDGED):
        return None

    def ask() -> Predictions | None:
        if not len(split.indices("val")):
            return None
        return load_predictions({"new": new}, session, part="val").models["new"]

    return ask


@dataclass(frozen=True)
class _Loaded:
    """Models under names of their own: predictions, and for those that are ours checkpoints and split."""

    models: Mapping[str, Predictions]
    split: Split | None
    checkpoints: Mapping[str, Checkpoint]

    def under(self, key_by_role: Mapping[str, str]) -> NamedModels:
        """Some of them under other roles.

        Args:
            key_by_role: the key of each in `models`, by the role that it gets.
        """
        models = {role: self.models[key] for role, key in key_by_role.items()}
        ours = {role: self.checkpoints[key] for role, key in key_by_role.items() if key in self.checkpoints}
        notes = []
        for role, model in models.items():
            count = 0 if role in ours else count_notes(Path(model.name))
            if count:
                files = "file" if count == 1 else "files"
                notes.append(f"{model.name}: {count} {files} of other writers passed over")
        if self.split is None or not ours:
            return NamedModels(models, warnings=tuple(notes))
        from mptctl.inference.own_models import find_doubts
        from mptctl.inference.predict import one_model

        warnings, unfinished = find_doubts(ours, self.split, JUDGED)
        both_ours = all(role in ours for role in JUDGED)
        return NamedModels(
            models=models,
            split=self.split,
            warnings=(*warnings, *notes),
            unfinished=tuple(unfinished),
            identical=both_ours and one_model(ours["old"], ours["new"]),
            records={role: (checkpoint.digest, checkpoint.meta) for role, checkpoint in ours.items()},
        )


def _load(names: Mapping[str, str], session: Session, part: Part, renamed: frozenset[str]) -> _Loaded:
    """Read or compute every model once."""
    run_root = session.run_root
    ours = {role: name for role, name in names.items() if not is_predictions_file(Path(name).expanduser())}
    if ours:
        from mptctl.inference.own_models import predict_named, refuse_without_split

        _refuse_foreign(ours.values(), run_root)
        refuse_without_split(list(ours.values()), run_root)
    files = {
        role: read_predictions(_file_of(name, run_root)) for role, name in names.items() if role not in ours
    }
    if not ours:
        return _Loaded(files, None, {})
    checkpoints, split, computed = predict_named(ours, session, part=part, renamed=renamed)
    return _Loaded({role: (files | computed)[role] for role in names}, split, checkpoints)


def _file_of(name: str, run_root: Path) -> Path:
    """The file of predictions: by their path, or below the run root."""
    path = Path(name).expanduser()
    below = run_root / path
    return below if has_predictions(below) and not has_predictions(path) else path


def _refuse_foreign(names: Iterable[str], run_root: Path) -> None:
    """Refuse a file that is neither a model nor predictions, before splits and checkpoints are looked at.

    Raises:
        UsageError: names the endings that can be read. CheckpointError: a program of torch.export.
    """
    from mptctl.models.export_meta import refuse_torch_program

    for name in names:
        there = (path for path in (run_root / name, Path(name).expanduser()) if os.path.exists(path))
        path = next(there, None)
        if path is None or not os.path.isfile(path) or path.suffix.lower() in MODELS:
            continue
        refuse_torch_program(path.suffix, str(path))
        try:
            with open(path, "rb") as file:
                begins = file.read(2)
        except OSError:
            continue  # said with its reason when it is read
        # Weights may have any name: they are an archive, or a pickle.
        if begins != b"PK" and begins[:1] != b"\x80":
            raise UsageError(
                f"{path}: is neither a model nor predictions; name a run, a model ({', '.join(MODELS)}), or "
                f"predictions ({SUFFIXES})"
            )


def _refuse_twice(news: Sequence[str], run_root: Path) -> None:
    """Refuse one new model under two names: its row would stand there twice.

    Raises:
        UsageError: it is. CheckpointError: there is no such model.
    """
    from mptctl.models.run_folder import find_checkpoint

    seen: dict[str, str] = {}
    for new in news:
        is_file = is_predictions_file(Path(new).expanduser())
        place = os.path.realpath(_file_of(new, run_root) if is_file else find_checkpoint(new, run_root))
        if place in seen:
            other = "" if seen[place] == new else f" (as {seen[place]} before)"
            raise UsageError(f"{new}: is named twice as NEW{other}; name each replacement once")
        seen[place] = new
