"""A chain of updates, each against the one before and the first: flips that are new, lasting and healed."""

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
from mptctl.studies.updates import unfinished

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
    """The fate of the right answers of generation 0 in one update; counts of samples.

    Attributes:
        new: wrong now, right in the generation before; also where an earlier one had broken and another
            healed them.
        lasting: wrong now and in the generation before.
        healed: right now, wrong in the generation before.
    """

    new: int
    lasting: int
    healed: int


def follow_flips(right: Sequence[BoolArray]) -> list[FlipsOfFirst]:
    """Follow the flips against generation 0 through the generations.

    Args:
        right: for each generation from 0 on, (N,) which test samples of generation 0's classes it gets right.

    Returns:
        One entry for each generation from 1 on. The new and the lasting ones are its flips against generation
        0, the lasting and the healed ones those of the generation before.

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
    """Every chain of updates that some runs make up.

    Which run an update replaces is what it records; a chain ends with an update that no other replaces.

    Args:
        folders: of the runs; those that belong to no chain are left alone.
        session: for models that did not answer yet; see `run_answers`.

    Raises:
        CheckpointError: no update among them, none whose old model is there too, or generations of other
            classes or pictures.
    """
    notes: list[str] = []
    asked: dict[Path, RunAnswers] = {}
    first: dict[Path, FirstModel] = {}
    chains: list[list[ChainRow]] = []
    for chain in _chains(folders, notes):
        for run in chain:
            if run not in asked:
                asked[run] = run_answers(run, session)
        models = [asked[run] for run in chain]
        first[chain[0]] = FirstModel(
            seed=models[0].head.request.seed,
            run=str(models[0].folder),
            classes=models[0].head.num_known,
            er_all=_error_on_known_classes(models[0]),
        )
        chains.append(_rows(models))
    chains.sort(key=lambda rows: (rows[0].seed, METHOD_NAMES.index(rows[-1].method), rows[-1].name))
    return ChainReport(
        first=sorted(first.values(), key=lambda model: model.seed),
        rows=[row for rows in chains for row in rows],
        notes=notes,
    )


def _chains(folders: Sequence[Path], notes: list[str]) -> list[list[Path]]:
    """Folders of each chain, generation after generation; a note on each run that is left out."""
    old_of: dict[Path, str] = {}
    by_digest: dict[str, Path] = {}
    for run in folders:
        by_digest[checkpoint_digest(run)] = run
        state, old = unfinished(run), recorded_teachers(run).get(Role.OLD)
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
        chain, broken = _back_to_first(end, old_of, by_digest)
        if broken is None:
            chains.append(chain)
        else:
            notes.append(f"{end}: left out: {broken}")
    if not chains:
        raise CheckpointError(f"no chain of updates is whole ({'; '.join(notes)})")
    return chains


def _back_to_first(
    end: Path, old_of: dict[Path, str], by_digest: dict[str, Path]
) -> tuple[list[Path], str | None]:
    """The chain that ends with a run, and what is missing in it; None for one that is whole."""
    chain = [end]
    while (digest := old_of.get(chain[0])) is not None:
        now, before = chain[0], by_digest.get(digest)
        whose = "its" if now == end else f"{now}'s"
        if before is None:
            return chain, (
                f"{whose} old model ({digest[:12]}) is not among these runs; name a folder that holds it too"
            )
        state = unfinished(before)
        if state is not None:
            return chain, (
                f"{whose} old model {before} has not come to its end ({state}); go on with it with --resume"
            )
        chain.insert(0, before)
    return chain, None


def _rows(models: Sequence[RunAnswers]) -> list[ChainRow]:
    """The updates of one chain; generation 0 is the first of its models."""
    for before, now in pairwise(models):
        _refuse_unlike(before, now)
    known = [model.head.num_known for model in models]
    of_first = [_right(model, known[0]) for model in models]
    n = len(of_first[0])
    rows = []
    for generation, flips in enumerate(follow_flips(of_first), start=1):
        before, now = models[generation - 1], models[generation]
        shared = known[generation - 1]
        counts = flip_counts(_right(before, shared), _right(now, shared))
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


def _right(model: RunAnswers, classes: int) -> BoolArray:
    """(n,) test samples of the first so many classes that a model gets right, in the manifest's order."""
    return model.test.right()[model.test.label < classes]


def _error_on_known_classes(model: RunAnswers) -> Rate:
    right = _right(model, model.head.num_known)
    return rate(int((~right).sum()), len(right))


def _refuse_unlike(before: RunAnswers, now: RunAnswers) -> None:
    """Refuse two generations that cannot be compared sample by sample."""
    known = before.head.num_known
    samples = [model.test.index[model.test.label < known] for model in (before, now)]
    names = [model.head.class_names[:known] for model in (before, now)]
    if names[0] != names[1] or not np.array_equal(samples[0], samples[1]):
        what = "classes" if names[0] != names[1] else "test pictures"
        raise CheckpointError(
            f"{now.folder}: was asked of other {what} than {before.folder}, which it replaces; name runs of "
            "one chain"
        )
