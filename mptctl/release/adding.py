"""Add classes to a trained run from a few pictures of each, without training, and write it as a new run."""

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

from mptctl.data.derived_splits import extend_split, make_unlabelled_split
from mptctl.data.listing.image_folder import list_class_folders
from mptctl.data.split import Split
from mptctl.errors import DataError, UsageError, some
from mptctl.evaluation.rates import negative_flips
from mptctl.files import Model
from mptctl.inference.own_models import load_named_checkpoints
from mptctl.inference.predict import compute_features
from mptctl.machine.facts import git_commit, versions
from mptctl.models.checkpoint import Checkpoint, CheckpointMeta, load_model
from mptctl.models.heads import add_rows, find_classifier
from mptctl.models.ownership import Existing, refuse_own_inputs, run_folder
from mptctl.models.run_folder import RunDir
from mptctl.names import Session
from mptctl.release.new_run import refuse_unfit, write_run

# Share of the right predictions on validation samples that may go to a new class instead.
LIMIT = 0.01
# How far the constant lies above the last sample that it keeps, relative to 1 + |constant|: beyond rounding.
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
    """The classes that `fewshot --add` adds, and the run it adds them to.

    Attributes:
        run: the run to add classes to: its name, its folder or a checkpoint of it.
        pictures: a folder with a folder of pictures for each new class.
        name: of the new run folder below the run root.
        overwrite: replace a run that is in that folder.
    """

    run: str
    pictures: Path
    name: str
    overwrite: bool = False


@dataclass(frozen=True)
class _ValidationFeatures:
    """Validation samples as the run's classifier sees them: (n, D) features, and n names of classes."""

    features: Tensor
    labels: list[str]


def add_classes(request: AddRequest, session: Session) -> AddReport:
    """Add the classes of a folder to a run, and write the result to a new run folder.

    Each new class gets an imprinted row of the classifier. One constant is subtracted from all new logits, so
    that at most `LIMIT` of the right predictions on the validation part are lost.

    Args:
        request: the classes, and the run.
        session: where runs and the split are, and where the model computes.

    Raises:
        CheckpointError: there is no such run, or it is of another split.
        UsageError: the split has no validation part, the run is not finished or knows a class already, or the
            name is taken.
        DataError: there is no folder of a class, one without pictures or with a damaged one, or the run
            predicts no validation sample right.
        StorageError: the folder cannot be written.
    """
    checkpoints, split = load_named_checkpoints([request.run], session)
    checkpoint = checkpoints[request.run]
    refuse_unfit(checkpoint, split)
    run = RunDir(run_folder(split.run_root, request.name))
    refuse_own_inputs(run.path, (checkpoint.path,))
    existing: Existing = "replace" if request.overwrite else "refuse for good"
    run.refuse_unusable(existing)

    known = checkpoint.meta.class_names
    names = _new_names(request.pictures, known, split)
    features = _features_by_class(checkpoint, request.pictures, names, session)
    validation = _validation_features(checkpoint, split, session)
    model = load_model(checkpoint)
    arch = checkpoint.meta.recipe.model.arch
    before = _classify(model, arch, validation.features)
    rows = imprint([features[name] for name in names], find_classifier(model, arch).layer.weight.detach())
    add_rows(model, arch, rows, 0.0)
    unshifted = _classify(model, arch, validation.features)
    constant = _find_constant(before, unshifted, validation.labels, known, request)
    # From the checkpoint again, now with the constant.
    model = load_model(checkpoint)
    add_rows(model, arch, rows, constant)
    after = _classify(model, arch, validation.features)

    unlisted = [name for name in names if name not in set(split.classes.names)]
    own_split = extend_split(split, known, names) if unlisted else None
    counts = _count_predictions(before, after, validation.labels, (*known, *names), len(known))
    meta = _checkpoint_meta(checkpoint, own_split, split, (*known, *names), counts)
    notes = write_run(run, existing, meta, model, own_split or split)
    return AddReport(
        run=str(run.path),
        best=str(run.best),
        classes={name: len(features[name]) for name in names},
        constant=constant,
        flips=counts["val_flips"],
        right=counts["right"],
        limit=LIMIT,
        new_right=counts["new_right"],
        new_samples=counts["new_samples"],
        own_split=bool(unlisted),
        warnings=[*_warn_of_unlisted(unlisted), *notes],
    )


def _warn_of_unlisted(names: list[str]) -> list[str]:
    """A warning that classes are not in the split; none without names."""
    return [f"{some(names)}: not in the split, so no test picture of it is asked"] if names else []


def imprint(features: Sequence[Tensor], old_rows: Tensor) -> Tensor:
    """Compute a row of weights for each new class: the mean direction of its features.

    Each row is as long as the old rows are on average. Source: Qi et al., CVPR 2018.

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
    """Compute the smallest constant above which at most a share of the leads lies.

    A sample whose lead is above the constant is lost. The constant is raised a little (`ROOM`, or half the
    way to the next lead), so that rounding loses no further sample.

    >>> round(smallest_constant(np.array([4.0, 1.0, -2.0, -3.0]), 0.25), 3)  # one of four is lost
    1.0

    Args:
        lead: (n,) largest new logit minus the right one, of n > 0 samples that were right.
        limit: largest share of samples that may be lost, 0 to below 1.
    """
    falling = np.sort(lead)[::-1]
    may_be_lost = int(limit * len(lead) + 1e-9)  # 1e-9: a product such as 0.29 * 100 is just below a number
    constant = float(falling[may_be_lost])
    lost = falling[falling > constant]
    room = ROOM * (1 + abs(constant))
    if not len(lost):
        return constant + room
    return constant + min(room, float(lost[-1] - constant) / 2)


def _new_names(pictures: Path, known: tuple[str, ...], split: Split) -> list[str]:
    """The new classes, by folder: those of the split in its order, then the others.

    Raises:
        DataError: there is no folder of a class.
        UsageError: the run knows a class already.
    """
    folder = pictures.expanduser()
    folders = list_class_folders(folder)
    if not folders:
        raise DataError(f"{folder}: holds no folder of a class; give DIR/CLASS/PICTURE")
    known_already = [name for name in folders if name in set(known)]
    if known_already:
        raise UsageError(
            f"{folder}: {some(known_already)}: the run knows it already; leave only new classes there"
        )
    in_split = [name for name in split.classes.names if name in set(folders)]
    return in_split + [name for name in folders if name not in set(in_split)]


def _features_by_class(
    checkpoint: Checkpoint, pictures: Path, names: list[str], session: Session
) -> dict[str, Tensor]:
    """Compute the features of the pictures of each new class, (pictures, D) by name.

    Raises:
        DataError: a picture is in no folder of a class or is damaged, or a class has no picture.
    """
    folder = pictures.expanduser().resolve()
    folder_split, _ = make_unlabelled_split(folder, checkpoint.meta.class_names)
    ids = folder_split.ids(folder_split.indices("test")).tolist()
    loose = [name for name in ids if "/" not in name]
    if loose:
        raise DataError(f"{folder}: {some(loose)}: in no folder of a class; move or remove it")
    # The loader `resident` would store decoded pictures in the folder of the pictures.
    recipe = checkpoint.meta.recipe
    recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update={"loader": "threaded"})})
    threaded = replace(checkpoint, meta=checkpoint.meta.model_copy(update={"recipe": recipe}))
    features = torch.from_numpy(compute_features({"model": threaded}, folder_split, session)["model"])
    classes = np.array([name.partition("/")[0] for name in ids], dtype=np.str_)
    by_class = {name: features[torch.from_numpy(classes == name)] for name in names}
    for name, of_class in by_class.items():
        if not len(of_class):
            raise DataError(f"{folder / name}: holds no picture; add some or remove the folder")
    return by_class


def _validation_features(checkpoint: Checkpoint, split: Split, session: Session) -> _ValidationFeatures:
    """Compute the features of the validation part."""
    features = compute_features({"model": checkpoint}, split, session, part="val")["model"]
    labels = [split.classes.names[label] for label in split.labels[split.indices("val")]]
    return _ValidationFeatures(torch.from_numpy(features), labels)


@torch.no_grad()
def _classify(model: nn.Module, arch: str, features: Tensor) -> Tensor:
    """Apply the classifier of a model to features, (n, D) to logits (n, C)."""
    logits: Tensor = find_classifier(model, arch).layer(features)
    return logits


def _find_constant(
    before: Tensor, after: Tensor, labels: list[str], known: tuple[str, ...], request: AddRequest
) -> float:
    """The smallest constant that, subtracted from the new logits, loses at most `LIMIT` of right predictions.

    Args:
        before: (n, C) logits of the run on validation samples.
        after: (n, C + new classes) logits with the new classes.
        labels: n names of classes.
        known: names of the C classes.
        request: names the run in the error.

    Raises:
        DataError: the run predicts no sample right.
    """
    places = torch.tensor([known.index(label) if label in known else -1 for label in labels])
    right = before.argmax(dim=1) == places
    if not right.any():
        raise DataError(
            f"{request.run}: predicts no validation picture right, so none can be kept; train it longer"
        )
    lead = after[right, len(known) :].amax(dim=1).double() - before[right].amax(dim=1).double()
    return smallest_constant(lead.numpy(), LIMIT)


def _count_predictions(
    before: Tensor, after: Tensor, labels: list[str], names: tuple[str, ...], num_known: int
) -> dict[str, int]:
    """Count right and wrong predictions on validation samples, by fields of the report and of metrics.

    Args:
        before: (n, C) logits of the run.
        after: (n, all classes) logits of the new run.
        labels: n names of classes; a sample of a class that neither run knows is not counted.
        names: of all classes, those of the run first.
        num_known: C.
    """
    place = {name: number for number, name in enumerate(names)}
    truth = torch.tensor([place.get(label, -1) for label in labels])
    was_right, is_right = before.argmax(dim=1) == truth, after.argmax(dim=1) == truth
    is_new, is_counted = truth >= num_known, truth >= 0
    return {
        "right": int(was_right.sum()),
        "new_right": int((is_right & is_new).sum()),
        "new_samples": int(is_new.sum()),
        "val_flips": int(negative_flips(was_right, is_right).sum()),
        "val_errors": int((is_counted & ~is_right).sum()),
        "val_samples": int(is_counted.sum()),
        "val_samples_old": int((is_counted & ~is_new).sum()),
    }


def _checkpoint_meta(
    checkpoint: Checkpoint,
    own_split: Split | None,
    split: Split,
    names: tuple[str, ...],
    counts: dict[str, int],
) -> CheckpointMeta:
    """The meta data of the new run's checkpoint, whose old model is the run that it was made from.

    Args:
        checkpoint: of that run.
        own_split: the split with the new classes, where the split lacks one of them; else None.
        split: of the run root.
        names: of all classes.
        counts: see `_count_predictions`.
    """
    metrics: dict[str, float | None] = {
        "val_error": counts["val_errors"] / counts["val_samples"],
        "val_nfr": counts["val_flips"] / counts["val_samples_old"],
        **{key: counts[key] for key in ("val_errors", "val_samples", "val_flips", "val_samples_old")},
    }
    return checkpoint.meta.model_copy(
        update={
            "class_names": names,
            "num_old": checkpoint.meta.num_old if own_split is None else own_split.classes.num_old,
            "split_fingerprint": (own_split or split).fingerprint,
            "metrics": metrics,
            "best_error": metrics["val_error"],
            "teachers": {"old": checkpoint.digest},
            "versions": versions(),
            "git_commit": git_commit(),
        }
    )
