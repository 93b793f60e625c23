"""Runs that are made of numbers: their answers, recipe and counted work, as committed results hold them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mptctl.data.split_file import SplitRequest
from mptctl.files import write_atomically
from mptctl.recipe import load_recipe
from mptctl.studies.answers_file import (
    SCHEMA_VERSION,
    AnswersHead,
    KeptCalibration,
    PartAnswers,
    RunAnswers,
    round_answers,
    write_answers,
)
from mptctl.studies.training_cost import RunWork, TeacherWork

NUM_OLD, CLASSES = 3, 6
# What one picture costs, and how many pictures a run is trained on.
FORWARD, STEP, PICTURES = 10, 30, 1000

CALIBRATION = KeptCalibration(
    n=10, accuracy=0.5, ece=0.2, aece=0.25, temperature=2.0, scaled_ece=0.1, scaled_aece=0.125
)

Part = Mapping[str, NDArray[np.float64]]


def made_part(
    label: NDArray[np.int64], logits: NDArray[np.float64], num_old: int = NUM_OLD, first_row: int = 0
) -> PartAnswers:
    """Answers of (N, C) logits, rounded as a file rounds them."""
    n, classes = logits.shape
    old, new = logits[:, :num_old], logits[:, num_old:]
    known = new.shape[1] > 0
    top = np.exp(logits - logits.max(axis=1, keepdims=True))
    return round_answers(
        index=np.arange(first_row, first_row + n),
        label=label,
        old_answer=old.argmax(axis=1),
        new_answer=new.argmax(axis=1) + num_old if known else np.zeros(n, dtype=np.int64),
        old_logit=old.max(axis=1),
        new_logit=new.max(axis=1) if known else np.full(n, -np.inf),
        took_new=logits.argmax(axis=1) >= num_old,
        confidence=1 / top.sum(axis=1),
        classes=max(classes, CLASSES),
    )


def made_run(
    folder: Path,
    method: str,
    seed: int,
    test: PartAnswers,
    val: PartAnswers,
    *,
    old: str | None = "old",
    refs: int = 0,
    num_known: int = CLASSES,
    num_old: int = NUM_OLD,
    classes: int = CLASSES,
    split: Mapping[str, object] | None = None,
    fingerprint: str | None = None,
    settings: Mapping[str, object] | None = None,
    calibration: KeptCalibration | None = None,
    digest: str = "",
    ref: str = "ref",
    old_digest: str | None = None,
) -> RunAnswers:
    """Write a run; its digest is its folder's name and seed, as are those of its teachers, and what else is said."""
    recipe = load_recipe("digits", (), {"method.name": method, "runtime.seed": seed, **(settings or {})})
    request = {
        "source": "digits", "data_root": None, "old_fraction": 0.5, "old_names": None, "order": "given",
        "seed": seed, "val_fraction": 0.1,
    }  # fmt: skip
    teachers = {} if old is None else {"old": old_digest or f"{old}-{seed}{digest}"}
    teachers |= {f"ref{i}" if refs > 1 else "ref": f"{ref}{i}-{seed}{digest}" for i in range(refs)}
    asked = {"old": TeacherWork(forward=4, training=0.0)} if refs else {}
    asked |= {
        name: TeacherWork(forward=FORWARD, training=float(PICTURES * STEP))
        for name in teachers
        if name != "old"
    }
    answers = RunAnswers(
        folder,
        recipe,
        AnswersHead(
            schema_version=SCHEMA_VERSION,
            digest=f"{folder.name}-{seed}{digest}",
            teachers=teachers,
            class_names=tuple(map(str, range(classes))),
            num_old=num_old,
            num_known=num_known,
            request=SplitRequest.model_validate({**request, **(split or {})}),
            split_fingerprint=fingerprint or f"split-{seed}",
            work=RunWork(
                parameters=1234,
                forward=FORWARD,
                training_step=STEP,
                pictures=PICTURES,
                taught_pictures=PICTURES,
                teachers=dict(asked),
            ),
            calibration=calibration or CALIBRATION,
        ),
        val,
        test,
    )
    folder.mkdir(parents=True)
    write_atomically(folder / "recipe.yaml", recipe.to_yaml().encode())
    write_answers(answers)
    return answers


def random_part(
    rng: np.random.Generator, label: NDArray[np.int64], strength: float, known: int = CLASSES
) -> PartAnswers:
    """Answers of logits that favour the true class by a strength; an old model knows the first classes alone."""
    logits = rng.normal(size=(len(label), known))
    at = np.flatnonzero(label < known)
    logits[at, label[at]] += strength
    return made_part(label, logits, min(NUM_OLD, known))


def made_seed(
    root: Path, seed: int, strengths: Mapping[str, float], n: int = 400, **keys: object
) -> dict[str, RunAnswers]:
    """A run root of one seed: an old model, and updates that favour the true class by a strength each."""
    rng = np.random.default_rng(seed)
    test, val = (rng.integers(CLASSES, size=n) for _ in range(2))
    refs = {"mpt-kl": 1, "mpt-lm": 1, "elodi": 2}
    runs = {
        "old": made_run(
            root / "old", "no-treatment", seed, random_part(rng, test, 3.0, NUM_OLD),
            random_part(rng, val, 3.0, NUM_OLD), old=None, num_known=NUM_OLD, **keys,  # type: ignore[arg-type]
        )
    }  # fmt: skip
    for method, strength in strengths.items():
        runs[method] = made_run(
            root / method, method, seed, random_part(rng, test, strength), random_part(rng, val, strength),
            refs=refs.get(method, 0), **keys,  # type: ignore[arg-type]
        )  # fmt: skip
    return runs
