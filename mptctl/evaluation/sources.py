"""From what a person names on the command line to predictions: files, run folders, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mptctl.evaluation.predictions import Predictions, is_predictions_file, read_predictions

if TYPE_CHECKING:
    from mptctl.data.split import Split


@dataclass(frozen=True)
class Answers:
    """What `answers_of` found.

    Attributes:
        models: predictions, in the order asked for.
        split: the split of the run root, where a model of ours was asked; None with files alone.
        warnings: what a reader of the numbers should know.
        unfinished: for each model, a sentence where its run is known not to have come to its end.
        identical: the first two are known to be one model.
    """

    models: list[Predictions]
    split: Split | None
    warnings: list[str]
    unfinished: list[str | None]
    identical: bool


def answers_of(
    names: Sequence[str],
    run_root: Path,
    device: str = "auto",
    progress: Callable[[str, int, int], None] | None = None,
) -> Answers:
    """Predictions of models of any kind.

    Args:
        names: each a predictions file, a run's name, a run folder, or a ``.pt`` file of ours; a file that is not
            there is looked for below `run_root`.
        run_root: where runs and the split are; run folders of another root, named by path, bring their own.
        device: where models of ours compute.
        progress: called with (what is under way, pictures done, pictures in all).

    Raises:
        DataError, NonFiniteError: a predictions file that is missing, damaged, or holds NaN.
        CheckpointError: no such model, a damaged one, or one of classes that the split does not know.
        UsageError: there is no split, or no such device.
    """
    files: dict[int, Predictions] = {}
    ours: dict[int, str] = {}
    for i, name in enumerate(names):
        path = Path(name).expanduser()
        if is_predictions_file(path):
            below = run_root / path
            files[i] = read_predictions(below if below.is_file() and not path.is_file() else path)
        else:
            ours[i] = name
    if not ours:
        return Answers([files[i] for i in range(len(names))], None, [], [None] * len(names), False)

    # torch is slow to import, and files need none of it.
    from mptctl.checkpoint import load_checkpoint
    from mptctl.data.split import SPLIT_NAME, load_split
    from mptctl.evaluation.predict import one_model, predict
    from mptctl.training.finished import unfinished
    from mptctl.training.rundir import find_checkpoint

    paths = [find_checkpoint(name, run_root) for name in ours.values()]
    checkpoints = [load_checkpoint(path) for path in paths]
    # Run folders that are named by their path are tested on the split that lies beside them.
    roots = {path.resolve().parent.parent for path in paths}
    if roots != {run_root.resolve()} and len(roots) == 1 and (found := roots.pop() / SPLIT_NAME).is_file():
        run_root = found.parent
    split = load_split(run_root)
    computed = dict(zip(ours, predict(checkpoints, split, device, progress), strict=True))
    warnings = [
        f"{c.path} was trained on another split than {run_root}: pictures tested here may have trained it"
        for c in checkpoints
        if c.meta.split_fingerprint not in (None, split.fingerprint)
    ]
    ends = {i: unfinished(c.path, c.meta) for i, c in zip(ours, checkpoints, strict=True)}
    warnings += [end.sentence for end in ends.values() if end is not None and not end.certain]
    states = [ends.get(i) for i in range(len(names))]
    return Answers(
        [(files | computed)[i] for i in range(len(names))],
        split,
        warnings,
        [state.sentence if state is not None and state.certain else None for state in states],
        list(ours)[:2] == [0, 1] and one_model(checkpoints[0], checkpoints[1]),
    )
