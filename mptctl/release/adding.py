"""A trained run that knows further classes, from a few pictures of each, without training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from mptctl.data.derived_splits import extend_split, unlabelled_split
from mptctl.data.listing.image_folder import list_class_folders
from mptctl.data.split import Split
from mptctl.errors import DataError, UsageError, some
from mptctl.evaluation.rates import negative_flips
from mptctl.files import Model
from mptctl.inference.own_models import named_checkpoints
from mptctl.inference.predict import compute_features
from mptctl.machine.facts import git_commit, versions
from mptctl.models.checkpoint import Checkpoint, CheckpointMeta, load_model
from mptctl.models.heads import add_rows, find_classifier
from mptctl.models.ownership import Existing, refuse_own_inputs, run_folder
from mptctl.models.run_folder import RunDir
from mptctl.names import Session
from mptctl.release.new_run import refuse_unfit, write_run

# Part of the right answers on validation samples that new classes may take over.
LIMIT = 0.01
# Distance of the constant from the next sample that it keeps, where there is room: more than rounding.
ROOM = 1e-4


class AddReport(Model):
    """The classes that were added, and their cost on validation samples."""

    run: str = Field(description="the run folder that was written")
    best: str = Field(description="the checkpoint that evaluate takes")
    classes: dict[str, int] = Field(description="the new classes, and of how many pictures each was made")
    constant: float = Field(description="what was taken off their logits; below 0 it was added")
    flips: int = Field(description="right predictions on validation samples that a new class took over")
    right: int = Field(description="right predictions there of the run as it was")
    limit: float = Field(description="part of the right predictions that may flip")
    new_right: int = Field(description="validation samples of the new classes that are now answered right")
    new_samples: int = Field(description="validation samples of the new classes; 0 for one of no split")
    own_split: bool = Field(description="the run has a split of its own, since the run root's lacks a class")
    warnings: list[str] = Field(description="what a reader of the numbers should know")


@dataclass(frozen=True)
class AddRequest:
    """The classes that `fewshot --add` adds, and to which run.

    Attributes:
        run: the run to begin with: its name, its folder or a checkpoint of it.
        pictures: a folder with a folder of pictures for each new class.
        name: of the new run folder below the run root.
        overwrite: throw away the run that is in the folder.
    """

    run: str
    pictures: Path
    name: str
    overwrite: bool = False


@dataclass(frozen=True)
class _Validation:
    """Validation samples as the run sees them: (n, D) features, and (n,) names of their classes."""

    features: Tensor
    labels: list[str]


def add_classes(request: AddRequest, session: Session) -> AddReport:
    """Imprint rows for the classes of a folder, hold them back by a constant, and write a run folder.

    Args:
        request: what was asked for.
        session: where runs and the split are, and where the model computes.

    Raises:
        CheckpointError: no such run, or one of another split.
        UsageError: no validation part, a run that is not finished, a class that it knows, or a name that is
            taken.
        DataError: no class folder, one without pictures, damaged ones, or no right answer on validation
            samples.
        StorageError: the folder cannot be written.
    """
    checkpoints, split = named_checkpoints([request.run], session)
    checkpoint = checkpoints[request.run]
    refuse_unfit(checkpoint, split)
    run = RunDir(run_folder(split.run_root, request.name))
    refuse_own_inputs(run.path, (checkpoint.path,))
    existing: Existing = "replace" if request.overwrite else "refuse for good"
    run.refuse_unusable(existing)

    known = checkpoint.meta.class_names
    names = _new_names(request.pictures, known, split)
    shown = _features_by_class(checkpoint, request.pictures, names, session)
    validation = _validation(checkpoint, split, session)
    model = load_model(checkpoint)
    arch = checkpoint.meta.recipe.model.arch
    before = _logits(model, arch, validation.features)
    rows = imprint([shown[name] for name in names], find_classifier(model, arch).layer.weight.detach())
    add_rows(model, arch, rows, 0.0)
    constant = _constant(before, _logits(model, arch, validation.features), validation.labels, known, request)
    model = load_model(checkpoint)
    add_rows(model, arch, rows, constant)
    after = _logits(model, arch, validation.features)

    strangers = [name for name in names if name not in set(split.classes.names)]
    own = extend_split(split, known, names) if strangers else None
    counts = _counts(before, after, validation.labels, (*known, *names), len(known))
    report = AddReport(
        run=str(run.path),
        best=str(run.best),
        classes={name: len(shown[name]) for name in names},
        constant=constant,
        flips=counts["val_flips"],
        right=counts["right"],
        limit=LIMIT,
        new_right=counts["new_right"],
        new_samples=counts["new_samples"],
        own_split=bool(strangers),
        warnings=[f"{some(strangers)}: not in the split, so no test picture of it is asked"]
        if strangers
        else [],
    )
    meta = _meta(checkpoint, own, split, (*known, *names), counts)
    notes = write_run(run, existing, meta, model, own or split)
    return report.model_copy(update={"warnings": [*report.warnings, *notes]})


def imprint(features: Sequence[Tensor], old_rows: Tensor) -> Tensor:
    """Computes the mean direction of features of each class, as long as old rows are on average.

    Source: Qi et al., CVPR 2018.

    >>> imprint([torch.tensor([[0.0, 5.0], [0.0, 1.0]])], torch.tensor([[3.0, 4.0], [1.0, 0.0]]))
    tensor([[0., 3.]])

    Args:
        features: of each new class, (pictures, D).
        old_rows: (C_old, D) weights of the classifier.

    Returns:
        (new classes, D).
    """
    means = torch.stack([F.normalize(each, dim=1).mean(dim=0) for each in features])
    rows: Tensor = F.normalize(means, dim=1) * old_rows.norm(dim=1).mean()
    return rows


def smallest_constant(lead: NDArray[np.float64], limit: float) -> float:
    """Computes the smallest constant at which at most a part of the samples is lost.

    A sample is lost whose lead is above the constant.

    >>> round(smallest_constant(np.array([4.0, 1.0, -2.0, -3.0]), 0.25), 3)  # one of four is lost
    1.0

    Args:
        lead: (n,) of samples that were right, n > 0: the largest new logit minus the right one.
        limit: the part, 0 to below 1.
    """
    falling = np.sort(lead)[::-1]
    constant = float(falling[int(limit * len(lead) + 1e-9)])
    above = falling[falling > constant]
    # The same samples are lost, and none of them by rounding.
    room = ROOM * (1 + abs(constant))
    return constant + (min(room, float(above[-1] - constant) / 2) if len(above) else room)


def _new_names(pictures: Path, known: tuple[str, ...], split: Split) -> list[str]:
    """The classes of a folder: those of the split in its order, then the others."""
    folder = pictures.expanduser()
    found = list_class_folders(folder)
    if not found:
        raise DataError(f"{folder}: holds no folder of a class; give DIR/CLASS/PICTURE")
    twice = [name for name in found if name in set(known)]
    if twice:
        raise UsageError(f"{folder}: {some(twice)}: the run knows it already; leave only new classes there")
    ours = [name for name in split.classes.names if name in set(found)]
    return ours + [name for name in found if name not in set(ours)]


def _features_by_class(
    checkpoint: Checkpoint, pictures: Path, names: list[str], session: Session
) -> dict[str, Tensor]:
    """(pictures, D) by new class."""
    folder = pictures.expanduser().resolve()
    shown, _ = unlabelled_split(folder, checkpoint.meta.class_names)
    ids = shown.ids(shown.indices("test")).tolist()
    loose = [name for name in ids if "/" not in name]
    if loose:
        raise DataError(f"{folder}: {some(loose)}: in no folder of a class; move or remove it")
    # Not `resident`, which would keep what it decodes on disk, in the folder of the pictures.
    recipe = checkpoint.meta.recipe
    recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update={"loader": "threaded"})})
    seen_once = replace(checkpoint, meta=checkpoint.meta.model_copy(update={"recipe": recipe}))
    features = torch.from_numpy(compute_features({"model": seen_once}, shown, session)["model"])
    classes = np.array([name.partition("/")[0] for name in ids], dtype=np.str_)
    by_class = {name: features[torch.from_numpy(classes == name)] for name in names}
    for name, each in by_class.items():
        if not len(each):
            raise DataError(f"{folder / name}: holds no picture; add some or remove the folder")
    return by_class


def _validation(checkpoint: Checkpoint, split: Split, session: Session) -> _Validation:
    features = compute_features({"model": checkpoint}, split, session, part="val")["model"]
    labels = [split.classes.names[label] for label in split.labels[split.indices("val")]]
    return _Validation(torch.from_numpy(features), labels)


@torch.no_grad()
def _logits(model: nn.Module, arch: str, features: Tensor) -> Tensor:
    """(n, C) of the classifier alone."""
    found: Tensor = find_classifier(model, arch).layer(features)
    return found


def _constant(
    before: Tensor, after: Tensor, labels: list[str], known: tuple[str, ...], request: AddRequest
) -> float:
    """The smallest constant off the new logits at which few enough right answers are lost."""
    places = torch.tensor([known.index(label) if label in known else -1 for label in labels])
    right = before.argmax(dim=1) == places
    if not right.any():
        raise DataError(
            f"{request.run}: predicts no validation picture right, so none can be kept; train it longer"
        )
    lead = after[right, len(known) :].amax(dim=1).double() - before[right].amax(dim=1).double()
    return smallest_constant(lead.numpy(), LIMIT)


def _counts(
    before: Tensor, after: Tensor, labels: list[str], names: tuple[str, ...], num_known: int
) -> dict[str, int]:
    """Counts of validation samples before and after."""
    place = {name: number for number, name in enumerate(names)}
    truth = torch.tensor([place.get(label, -1) for label in labels])
    was, now = before.argmax(dim=1) == truth, after.argmax(dim=1) == truth
    new, asked = truth >= num_known, truth >= 0
    return {
        "right": int(was.sum()),
        "new_right": int((now & new).sum()),
        "new_samples": int(new.sum()),
        "val_flips": int(negative_flips(was, now).sum()),
        "val_errors": int((asked & ~now).sum()),
        "val_samples": int(asked.sum()),
        "val_samples_old": int((asked & ~new).sum()),
    }


def _meta(
    checkpoint: Checkpoint, own: Split | None, split: Split, names: tuple[str, ...], counts: dict[str, int]
) -> CheckpointMeta:
    """The record of the new run's checkpoint; its old model is the run that it was made from."""
    metrics: dict[str, float | None] = {
        "val_error": counts["val_errors"] / counts["val_samples"],
        "val_nfr": counts["val_flips"] / counts["val_samples_old"],
        **{key: counts[key] for key in ("val_errors", "val_samples", "val_flips", "val_samples_old")},
    }
    return checkpoint.meta.model_copy(
        update={
            "class_names": names,
            "num_old": checkpoint.meta.num_old if own is None else own.classes.num_old,
            "split_fingerprint": (own or split).fingerprint,
            "metrics": metrics,
            "best_error": metrics["val_error"],
            "teachers": {"old": checkpoint.digest},
            "versions": versions(),
            "git_commit": git_commit(),
        }
    )
