"""A chain of updates: the flips of each against the first model, and which are new, lasting and healed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from mptctl.errors import CheckpointError
from mptctl.evaluation.pairing.paired_answers import flip_counts
from mptctl.evaluation.rates import Rate, negative_flips
from mptctl.evaluation.statistics import rate
from mptctl.files import Model
from mptctl.names import METHOD_NAMES, Role, Session
from mptctl.studies.answers import run_answers
from mptctl.studies.answers_file import RunAnswers
from mptctl.studies.run_folders import checkpoint_digest, recorded_teachers
from mptctl.studies.updates import describe_unfinished

BoolArray = NDArray[np.bool_]


class FirstModel(Model):
    """Generation 0 of a seed, which all its chains begin with."""

    seed: int = Field(description="of its split")
    run: str = Field(description="its folder")
    classes: int = Field(description="that it knows")
    er_all: Rate = Field(description="error on the test samples of these")


class ChainRow(Model):
    """An update of a chain."""

    seed: int = Field(description="of its split")
    name: str = Field(description="of the run that its chain ends with")
    method: str = Field(description="of its recipe")
    generation: int = Field(
        description="1 for an update of generation 0, 2 for an update of that one, and so on"
    )
    run: str = Field(description="its folder")
    classes: int = Field(description="that it knows")
    er_all: Rate = Field(description="error on the test samples of these")
    flips_before: Rate = Field(
        description="right in the generation before, wrong now / test samples of the classes that that one "
        "knows"
    )
    flips_first: Rate = Field(
        description="right in generation 0, wrong now / test samples of the classes that that one knows"
    )
    new: Rate = Field(description="flips_first that were right in the generation before / the same samples")
    lasting: Rate = Field(
        description="flips_first that were wrong in the generation before too / the same samples"
    )
    healed: Rate = Field(
        description="right in generation 0, wrong in the generation before, right now / the same samples"
    )


class ChainReport(Model):
    """The object that `chain --json` prints."""

    first: list[FirstModel] = Field(description="generation 0, one for each seed")
    rows: list[ChainRow] = Field(description="chain after chain, generation after generation")
    notes: list[str] = Field(description="what a reader of the numbers should know")


class FlipsOfFirst(NamedTuple):
    """Counts of samples that generation 0 gets right, and this update or the generation before gets wrong.

    Attributes:
        new: right in the generation before, wrong now; some may have been wrong in an earlier generation.
        lasting: wrong in the generation before, and now.
        healed: wrong in the generation before, right now.
    """

    new: int
    lasting: int
    healed: int


def follow_flips(right: Sequence[BoolArray]) -> list[FlipsOfFirst]:
    """Count, for each generation from 1 on, the new, lasting and healed flips against generation 0.

    New and lasting flips together are those of the generation; lasting and healed ones together are those of
    the generation before.

    Args:
        right: for each generation from 0 on, (N,) whether it is right on each test sample of generation 0's
            classes.

    >>> right = np.array([[True, True, True], [True, False, False], [False, True, False]])
    >>> follow_flips(list(right))
    [FlipsOfFirst(new=2, lasting=0, healed=0), FlipsOfFirst(new=1, lasting=1, healed=1)]
    """
    broken = [negative_flips(right[0], now) for now in right]
    return [
        FlipsOfFirst(
            new=int((now & ~before).sum()),
            lasting=int((now & before).sum()),
            healed=int((before & ~now).sum()),
        )
        for before, now in pairwise(broken)
    ]


def report_chains(folders: Sequence[Path], session: Session = Session()) -> ChainReport:
    """Measure every chain of updates among some runs.

    Each update records the run that it replaces. A chain ends with an update that no other update replaces.

    Args:
        folders: of the runs; runs that belong to no chain are ignored.
        session: for runs whose predictions are not kept yet; see `run_answers`.

    Raises:
        CheckpointError: there is no update, no chain is whole, or the generations of a chain have other
            classes or test pictures.
    """
    notes: list[str] = []
    answers: dict[Path, RunAnswers] = {}
    first: dict[Path, FirstModel] = {}
    chains: list[list[ChainRow]] = []
    for chain in _find_chains(folders, notes):
        for run in chain:
            if run not in answers:
                answers[run] = run_answers(run, session)
        models = [answers[run] for run in chain]
        first[chain[0]] = FirstModel(
            seed=models[0].head.request.seed,
            run=str(models[0].folder),
            classes=models[0].head.num_known,
            er_all=_error_on_known_classes(models[0]),
        )
        chains.append(_build_rows(models))
    # By seed, and by the method and name of the run that a chain ends with.
    chains.sort(key=lambda rows: (rows[0].seed, METHOD_NAMES.index(rows[-1].method), rows[-1].name))
    return ChainReport(
        first=sorted(first.values(), key=lambda model: model.seed),
        rows=[row for rows in chains for row in rows],
        notes=notes,
    )


def _find_chains(folders: Sequence[Path], notes: list[str]) -> list[list[Path]]:
    """Find the folders of each whole chain, generation after generation.

    Args:
        folders: of all runs.
        notes: a note is added for each run and each chain that is left out.

    Raises:
        CheckpointError: there is no update, or no chain is whole.
    """
    old_of: dict[Path, str] = {}
    by_digest: dict[str, Path] = {}
    for run in folders:
        by_digest[checkpoint_digest(run)] = run
        state, old = describe_unfinished(run), recorded_teachers(run).get(Role.OLD)
        if state is not None:
            notes.append(f"{run}: left out: {state}")
        elif old is not None:
            old_of[run] = old
    replaced = set(old_of.values())
    ends = [run for run in old_of if checkpoint_digest(run) not in replaced]
    if not ends:
        raise CheckpointError("no update among these runs; train a chain with mptctl study chain")
    chains = []
    for end in ends:
        chain, problem = _trace_back_to_first(end, old_of, by_digest)
        if problem is None:
            chains.append(chain)
        else:
            notes.append(f"{end}: left out: {problem}")
    if not chains:
        raise CheckpointError(f"no chain of updates is whole ({'; '.join(notes)})")
    return chains


def _trace_back_to_first(
    end: Path, old_of: dict[Path, str], by_digest: dict[str, Path]
) -> tuple[list[Path], str | None]:
    """Follow old models back from the last update of a chain.

    Args:
        end: the last update.
        old_of: the digest of the old model of each finished update.
        by_digest: all runs by the digests of their checkpoints.

    Returns:
        The chain from its first model on, and the reason why it is not whole; None if it is.
    """
    chain = [end]
    while chain[0] in old_of:
        now, digest = chain[0], old_of[chain[0]]
        before = by_digest.get(digest)
        whose = "its" if now == end else f"{now}'s"
        if before is None:
            return chain, (
                f"{whose} old model ({digest[:12]}) is not among these runs; name a folder that holds it too"
            )
        state = describe_unfinished(before)
        if state is not None:
            return chain, (
                f"{whose} old model {before} has not come to its end ({state}); go on with it with --resume"
            )
        chain.insert(0, before)
    return chain, None


def _build_rows(models: Sequence[RunAnswers]) -> list[ChainRow]:
    """The rows of the updates of one chain, whose models begin with generation 0; refuses unlike models."""
    for before, now in pairwise(models):
        _refuse_unlike(before, now)
    known = [model.head.num_known for model in models]
    right_on_first_classes = [_is_right(model, known[0]) for model in models]
    n = len(right_on_first_classes[0])
    rows = []
    for generation, flips in enumerate(follow_flips(right_on_first_classes), start=1):
        before, now = models[generation - 1], models[generation]
        known_before = known[generation - 1]
        counts = flip_counts(_is_right(before, known_before), _is_right(now, known_before))
        rows.append(
            ChainRow(
                seed=now.head.request.seed,
                name=models[-1].folder.name,
                method=now.recipe.method.name,
                generation=generation,
                run=str(now.folder),
                classes=known[generation],
                er_all=_error_on_known_classes(now),
                flips_before=rate(counts.negative_flips, counts.total),
                flips_first=rate(flips.new + flips.lasting, n),
                new=rate(flips.new, n),
                lasting=rate(flips.lasting, n),
                healed=rate(flips.healed, n),
            )
        )
    return rows


def _is_right(model: RunAnswers, classes: int) -> BoolArray:
    """(n,) whether a model is right on each test sample of the first ``classes`` classes; manifest order."""
    return model.test.right()[model.test.label < classes]


def _error_on_known_classes(model: RunAnswers) -> Rate:
    """The error rate on test samples of the classes that a model knows."""
    right = _is_right(model, model.head.num_known)
    return rate(int((~right).sum()), len(right))


def _refuse_unlike(before: RunAnswers, now: RunAnswers) -> None:
    """Refuse two generations of a chain whose classes or test samples differ.

    Raises:
        CheckpointError: the classes that the earlier one knows, or their test samples, are not the same.
    """
    known = before.head.num_known
    samples = [model.test.index[model.test.label < known] for model in (before, now)]
    names = [model.head.class_names[:known] for model in (before, now)]
    if names[0] != names[1] or not np.array_equal(samples[0], samples[1]):
        differing = "classes" if names[0] != names[1] else "test pictures"
        raise CheckpointError(
            f"{now.folder}: was asked of other {differing} than {before.folder}, which it replaces; name "
            "runs of one chain"
        )
