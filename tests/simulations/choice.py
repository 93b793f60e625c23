"""Count how often `compare --choose` chooses the row that is best on samples which chose nothing, and its regret.

Of kept runs, as many test samples as the validation part has choose, drawn at random with ten seeds, and the rest
judge; then the kept validation part chooses, and all test samples judge. Protocol: docs/research/old-weights.md.

    python -m tests.simulations.choice --digits runs/which_digits --write results/choice.json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mptctl.studies.answers_file import RunAnswers
from mptctl.studies.choose import SAME_COST, choose_among
from mptctl.studies.compare import cost_of_updates
from mptctl.studies.groups import count_once, find_row, group_updates, plain_by_replicate
from mptctl.studies.post_hoc_bias import shift_to_error_of
from mptctl.studies.updates import Update, find_updates

MOST_COST, DIVISIONS = 2.7, 10
# Folder below results/, and the names of its rows "plain from the old weights" and mpt-kl.
KEPT = {
    "characters, short": ("equal-cost/4", "equal-cost/5"),
    "CIFAR-10, small network": ("cifar10-small/3", "cifar10-small/4"),
    "CIFAR-10, fine-tuned": ("finetune/4",),
}
PLAIN_OLD, MPT = ("no-treatment-old", "plain-old"), ("mpt-kl-k0.9", "mpt-kl-k1.5", "mpt-kl")


@dataclass(frozen=True)
class Trial:
    """One choice, and what the judging samples say of it.

    Attributes:
        data, samples: what was chosen among, and by.
        chosen: name of the row.
        cost: of the row that was chosen, and of the one that is best.
        flips: at one error, of `judged` samples; the row `fewest` has the fewest on the samples that choose,
            whatever it costs.
        judged: samples of old classes.
        estimated_nfr: of the row that was chosen.
    """

    data: str
    samples: str
    chosen: str
    cost: dict[str, float]
    flips: dict[str, int]
    judged: int
    estimated_nfr: float


def main() -> int:
    """Print a line for each data set and kind of samples; write them as JSON if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument(
        "--digits", type=Path, help="run root of `mptctl study tests/simulations/which_digits.yaml`"
    )
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    folders = {data: [given.results / each for each in runs] for data, runs in KEPT.items()}
    if given.digits is not None:
        folders["digits"] = sorted(given.digits.glob("[0-9]*"), key=lambda path: int(path.name))
    trials = [trial for data, runs in folders.items() for run in runs for trial in try_out(data, run)]
    table = summarise(trials)
    for line in table:
        print("  ".join(f"{key} {value}" for key, value in line.items()))
    if given.write is not None:
        given.write.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    return 0


def try_out(data: str, folder: Path) -> Iterator[Trial]:
    """Choose among the rows of one training seed: with ten divisions of the test part, then as the runs are kept."""
    updates = affordable(count_once(find_updates([folder], None).updates)[0])
    if data != "digits":
        for seed in range(DIVISIONS):
            yield judge(data, "test part divided", [divide_test(update, seed) for update in updates])
    yield judge(data, "validation part", updates)


def affordable(updates: Sequence[Update]) -> list[Update]:
    """The updates that cost at most `MOST_COST`."""
    plain = plain_by_replicate(group_updates(updates))
    costs = [cost_of_updates([update], plain).total for update in updates]
    return [
        update
        for update, cost in zip(updates, costs, strict=True)
        if cost is not None and cost <= MOST_COST * (1 + SAME_COST)
    ]


def divide_test(update: Update, seed: int) -> Update:
    """The update with a random part of its test samples, as many as it has for validation, in place of these."""
    n, size = len(update.run.test), len(update.run.val)
    shuffled = np.random.default_rng([5, seed]).permutation(n)
    chooses, judges = np.sort(shuffled[:size]), np.sort(shuffled[size:])

    def divided(run: RunAnswers) -> RunAnswers:
        return replace(run, val=run.test.rows(chooses), test=run.test.rows(judges))

    return replace(update, run=divided(update.run), old=divided(update.old))


def judge(data: str, samples: str, updates: Sequence[Update]) -> Trial:
    """Choose by the part `val`, and count flips on the part `test`, shifted by the whole part `val`."""
    choice = choose_among([replace(update, part="val") for update in updates])
    groups = group_updates([replace(update, part="test") for update in updates])
    target = find_row("choice", choice.error_of, groups)
    # Also rows that no shift brings to this error.
    flips = {group.name: shift_to_error_of(target, group, -np.inf)[0].flips for group in groups}
    cost = {row.name: row.cost or 0.0 for row in choice.rows}
    rows = {
        "best": min(flips, key=lambda name: (flips[name][0], cost[name])),
        "chosen": choice.chosen,
        "fewest": choice.fewest_flips,
        "plain_old": next(name for name in PLAIN_OLD if name in flips),
        "mpt": next(name for name in MPT if name in flips),
    }
    return Trial(
        data, samples, choice.chosen,
        cost={kind: cost[rows[kind]] for kind in ("chosen", "best")},
        flips={kind: flips[name][0] for kind, name in rows.items()},
        judged=flips[rows["best"]][1],
        estimated_nfr=choice.estimate.nfr,
    )  # fmt: skip


def summarise(trials: Sequence[Trial]) -> list[dict[str, object]]:
    """A line for each data set and kind of samples: hits, and means over its trials."""
    lines = []
    for data, samples in dict.fromkeys((trial.data, trial.samples) for trial in trials):
        mine = [trial for trial in trials if (trial.data, trial.samples) == (data, samples)]
        cost, flips = (
            {
                kind: float(np.mean([getattr(trial, what)[kind] for trial in mine]))
                for kind in getattr(mine[0], what)
            }
            for what in ("cost", "flips")
        )
        best = flips.pop("best")
        lines.append(
            {
                "data": data,
                "samples": samples,
                "choices": len(mine),
                "best_chosen": sum(trial.flips["chosen"] == trial.flips["best"] for trial in mine),
                **{f"cost_of_{kind}": round(value, 2) for kind, value in cost.items()},
                "flips_of_best": round(best, 1),
                **{f"regret_{kind}": round(value - best, 1) for kind, value in flips.items()},
                "nfr_estimated": round(100 * float(np.mean([trial.estimated_nfr for trial in mine])), 2),
                "nfr_judged": round(100 * float(np.mean([t.flips["chosen"] / t.judged for t in mine])), 2),
                "chosen": sorted({trial.chosen for trial in mine}),
            }
        )
    return lines


if __name__ == "__main__":
    sys.exit(main())
