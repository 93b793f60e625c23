"""Whether the second best trial differs from the choice by more than noise."""

from __future__ import annotations

from pathlib import Path

import torch

from mpt_kernels.correct import is_top1_correct
from mptctl.data.split import Split
from mptctl.evaluation.rates import Counts, negative_flips
from mptctl.evaluation.statistics import SIGNIFICANT, mcnemar
from mptctl.inference.forward import forward
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.run_folder import RunDir
from mptctl.names import Role
from mptctl.recipe import Recipe
from mptctl.teachers.ensemble import Teacher
from mptctl.tune.prepare import Baseline
from mptctl.tune.tune_report import Comparison, Trial


def compare_best_two(
    chosen: Trial, second: Trial, split: Split, recipe: Recipe, baseline: Baseline
) -> Comparison:
    """Count the validation samples that one of two trials flips and the other does not.

    Args:
        chosen, second: whole trials.
        split, recipe: of the search.
        baseline: old model and validation part.
    """
    best = [RunDir(Path(trial.run)).best for trial in (chosen, second)]
    models = [
        Teacher(
            load_checkpoint(path),
            split.classes.names,
            recipe.data,
            baseline.device,
            recipe.runtime,
            str(path),
        )
        for path in best
    ]
    first, other = _flipped_by_one(models, baseline, split.classes.num_old)
    p = mcnemar(Counts(both_right=0, negative_flips=first, positive_flips=other, both_wrong=0))
    return Comparison(
        name=second.name,
        only_choice_flips=first,
        only_second_flips=other,
        p_value=p,
        differs=p < SIGNIFICANT,
    )


@torch.no_grad()
def _flipped_by_one(models: list[Teacher], baseline: Baseline, num_old: int) -> tuple[int, int]:
    """How many samples only the first of two models flips, and how many only the second."""
    first = second = 0
    for batch, answers in forward(models, baseline.val):
        old = baseline.old.logits(batch, {Role.OLD})[Role.OLD]
        right = is_top1_correct(old, batch.labels) & (batch.labels < num_old)
        one, other = (negative_flips(right, is_top1_correct(answer, batch.labels)) for answer in answers)
        first += int((one & ~other).sum())
        second += int((other & ~one).sum())
    return first, second
