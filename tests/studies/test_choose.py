"""The choice of an update by the validation part: three rows by hand, then what must not change it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptctl.errors import DataError, UsageError
from mptctl.evaluation.paired_bootstrap import FloatArray
from mptctl.studies.answers_file import PartAnswers, no_answers
from mptctl.studies.choose import are_beaten, choose_among, choose_row, choose_update, divide, estimate_choice
from mptctl.studies.comparison import Choice
from mptctl.studies.updates import find_updates
from tests.studies.made_runs import CLASSES, FORWARD, NUM_OLD, STEP, made_part, made_run, made_seed

# A half consists of blocks of these samples: four of old classes, which the old model gets right, and four of new ones.
BLOCK = np.array([0, 1, 2, 0, 3, 3, 4, 5])
TAUGHT_COST = 1 + (4 + FORWARD) / STEP


def made_half(wrong: int, blocks: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels and logits of one half: of each block's old classes so many are answered by a wrong old class.

    No shift mends these. The new classes are lost one after the other, from a shift of 4, 5, 6 and 7 on.
    """
    label, logits = np.tile(BLOCK, blocks), np.full((len(BLOCK) * blocks, CLASSES), -100.0)
    for i, true in enumerate(label):
        at = i % len(BLOCK)
        if true < NUM_OLD:
            logits[i, (true + 1) % NUM_OLD if at < wrong else true], logits[i, NUM_OLD] = 0.0, -9.0
        else:
            logits[i, 0], logits[i, true] = 0.0, float(at)
    return label, logits


def made_update(root: Path, method: str, wrong: int, blocks: int, val: PartAnswers | None = None) -> None:
    """An update whose two halves of the validation part are alike."""
    first, second = divide(2 * blocks * len(BLOCK))
    half_label, half_logits = made_half(wrong, blocks)
    label, logits = np.empty(2 * len(half_label), np.int64), np.empty((2 * len(half_label), CLASSES))
    for half in (first, second):
        label[half], logits[half] = half_label, half_logits
    refs = int(method.startswith("mpt"))
    part = made_part(label, logits)
    made_run(root / method, method, 1, part, part if val is None else val, refs=refs)
    if not (root / "old").exists():
        old = made_part(label, np.eye(CLASSES)[np.where(label < NUM_OLD, label, 0)][:, :NUM_OLD])
        made_run(
            root / "old", "no-treatment", 1, old, old if val is None else val, old=None, num_known=NUM_OLD
        )


def by_hand(root: Path, blocks: int, wrong: dict[str, int]) -> Choice:
    for method, count in wrong.items():
        made_update(root, method, count, blocks)
    return choose_update([root])


def test_three_rows_by_hand_the_fewest_flips_where_they_are_told_apart(tmp_path: Path) -> None:
    # Of a block of eight, plain gets two wrong, mpt-kl one and mpt-lm none: all are shifted to two of eight.
    choice = by_hand(tmp_path, 50, {"no-treatment": 2, "mpt-kl": 1, "mpt-lm": 0})
    assert (choice.error_of, choice.seeds) == ("no-treatment", [1])
    rows = {row.name: row for row in choice.rows}
    assert [row.errors.values for row in choice.rows] == [[(200, 800)]] * 3
    assert {name: row.flips.values for name, row in rows.items()} == {
        "no-treatment": [(200, 400)], "mpt-kl": [(100, 400)], "mpt-lm": [(0, 400)],
    }  # fmt: skip
    # mpt-lm: none of 400 and 100 of 400 are far apart. That it costs more than plain changes nothing.
    assert (choice.chosen, choice.fewest_flips) == ("mpt-lm", "mpt-lm")
    assert [row.within_noise for row in choice.rows] == [False, False, True]
    # mpt-kl has more flips at the same cost.
    assert [row.is_beaten for row in choice.rows] == [False, True, False]
    assert [row.cost for row in choice.rows] == pytest.approx([1, TAUGHT_COST + 1, TAUGHT_COST + 1])
    # Three trainings, two of which ask teachers, and one reference for both.
    # In each redraw mpt-lm is chosen and has no flip.
    assert choice.estimate.model_dump() == {"nfr": 0.0, "correction": 0.0, "chosen_again": 1.0}
    recipe = tmp_path / "mpt-lm" / "recipe.yaml"
    # The common error is 25 points above that of mpt-lm.
    assert choice.commands == [
        f"mptctl train-ref --recipe {recipe}",
        f"mptctl train-mpt --recipe {recipe} --name mpt-lm",
        "mptctl adjust mpt-lm --old old --max-er-increase 25.00",
    ]


def test_the_reference_is_trained_by_its_own_recipe_where_it_lies_beside_the_update(tmp_path: Path) -> None:
    label, logits = made_half(0, 100)
    part = made_part(label, logits)
    made_run(tmp_path / "ref0", "no-treatment", 1, part, part, old=None, settings={"optim.epochs": 2})
    choice = by_hand(tmp_path, 50, {"no-treatment": 2, "mpt-kl": 1, "mpt-lm": 0})
    assert choice.chosen == "mpt-lm"
    assert choice.commands[:2] == [
        f"mptctl train-ref --recipe {tmp_path / 'ref0' / 'recipe.yaml'}",
        f"mptctl train-mpt --recipe {tmp_path / 'mpt-lm' / 'recipe.yaml'} --name mpt-lm",
    ]


def test_the_cheapest_by_hand_where_noise_is_all_that_parts_them(tmp_path: Path) -> None:
    # One flip of four in plain, none in the others; of eight validation samples that tells nothing apart.
    choice = by_hand(tmp_path, 1, {"no-treatment": 1, "mpt-kl": 0, "mpt-lm": 0})
    assert [row.flips.values for row in choice.rows] == [[(2, 8)], [(0, 8)], [(0, 8)]]
    assert (choice.chosen, choice.fewest_flips) == ("no-treatment", "mpt-kl")
    assert all(row.within_noise for row in choice.rows)
    assert choice.row.nfr == 2 / 8
    assert choice.commands[0].startswith("mptctl train-baseline no-treatment --recipe ")
    assert choice.commands[1:] == ["mptctl adjust no-treatment --old old --max-er-increase 0.00"]


@pytest.mark.parametrize(
    ("flips", "cost", "least", "chosen"),
    [
        ([30, 22, 20], [1, 2, 2.7], 1, 2),  # told apart: the fewest flips
        ([30, 22, 20], [1, 2, 2.7], 5, 1),  # 22 is within noise of 20, and cheaper
        ([30, 22, 20], [1, 2, 2.7], 15, 0),  # all are
        ([22, 20, 23], [2.68, 2.7, 1], 2.5, 1),  # 2.68 and 2.7 are one cost
        ([20, 20, 20], [2.7, 1, 2], 0, 1),  # equal flips: the cheapest
        ([21, 20, 25], [np.inf, np.inf, np.inf], 3, 1),  # no cost is known
    ],
)
def test_the_rule_by_hand(flips: list[float], cost: list[float], least: float, chosen: int) -> None:
    assert choose_row(np.array(flips, float), np.array(cost, float), least * (1 - np.eye(3))) == chosen


ROWS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from([1.0, 1.01, 2.0, 2.7])), min_size=2, max_size=6)


@given(rows=ROWS, seed=st.integers(0, 100))
def test_a_row_that_another_beats_is_never_chosen_and_the_order_of_rows_changes_nothing(
    rows: list[tuple[int, float]], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    flips, cost = (np.array(column, float) for column in zip(*rows, strict=True))
    # The distance at which two rows are apart is each pair's own.
    noise = np.triu(rng.uniform(0, 6, size=(len(rows), len(rows))), 1)
    least = noise + noise.T
    chosen = choose_row(flips, cost, least)
    assert not are_beaten(flips, cost)[chosen]
    others = [(f, c) for i, (f, c) in enumerate(rows) if i != chosen]
    assert not any(f <= flips[chosen] and c < cost[chosen] for f, c in others)
    order = rng.permutation(len(rows))
    again = order[choose_row(flips[order], cost[order], least[np.ix_(order, order)])]
    if rows.count(rows[chosen]) == 1:
        assert again == chosen


def test_the_order_of_folders_changes_nothing(tmp_path: Path) -> None:
    made_seed(tmp_path, 1, {"no-treatment": 2.0, "mpt-kl": 2.5, "pct-kl": 2.2})
    choice = choose_update([tmp_path])
    folders = [tmp_path / name for name in ("pct-kl", "mpt-kl", "no-treatment")]
    assert choose_update(folders) == choice


def test_the_test_part_is_not_read(tmp_path: Path) -> None:
    made_seed(tmp_path, 1, {"no-treatment": 2.0, "mpt-kl": 2.5})
    updates = find_updates([tmp_path], None, part="val").updates
    without = [
        replace(
            update, run=replace(update.run, test=no_answers()), old=replace(update.old, test=no_answers())
        )
        for update in updates
    ]
    assert choose_among(without) == choose_among(updates)


def test_the_correction_takes_off_what_the_luckiest_of_equal_rows_owes_to_luck() -> None:
    # Eight rows of 100 flips each, with noise of 10; the fewest are taken. They look 14 better than they are.
    rng = np.random.default_rng(0)
    cost, nothing = np.ones(8), np.zeros((8, 8))

    def chosen_and_corrected() -> tuple[float, float]:
        observed: FloatArray = 100 + 10 * rng.normal(size=8)
        found = estimate_choice(observed, observed[:, None] + 10 * rng.normal(size=(8, 300)), cost, nothing)
        assert found.nfr == pytest.approx(observed.min() + found.correction)
        return float(observed.min()), found.nfr

    looks, corrected = np.mean([chosen_and_corrected() for _ in range(100)], axis=0)
    assert looks == pytest.approx(100 - 14.2, abs=2)
    assert corrected == pytest.approx(100 - 14.2 / 2, abs=5)


def test_seeds_that_not_all_rows_have_are_left_out_and_a_plain_update_from_the_old_weights_is_cost_1(
    tmp_path: Path,
) -> None:
    from_old = {"method.init": "old"}
    for seed in (1, 2):
        made_seed(tmp_path / str(seed), seed, {"no-treatment": 2.0, "mpt-kl": 2.5}, settings=from_old)
    made_seed(tmp_path / "3", 3, {"mpt-kl": 2.5}, settings=from_old)
    choice = choose_update([tmp_path])
    assert choice.seeds == [1, 2]
    assert choice.noise.over == "seeds and samples"
    assert {row.name: row.cost for row in choice.rows} == pytest.approx(
        {"plain from the old weights": 1.0, "mpt-kl": TAUGHT_COST + 1}
    )
    assert "1 runs are left out: not all rows have their seeds" in choice.notes


def test_what_cannot_be_chosen_is_refused(tmp_path: Path) -> None:
    made_seed(tmp_path / "a", 1, {"no-treatment": 2.0, "mpt-kl": 2.5, "pct-kl": 2.0})
    one, two, three = (tmp_path / "a" / name for name in ("no-treatment", "mpt-kl", "pct-kl"))
    with pytest.raises(UsageError, match=r"^--choose: there is one row, mpt-kl; name two or more"):
        choose_update([two])
    with pytest.raises(UsageError, match=r"^--choose: none of these rows is a plain update"):
        choose_update([two, three])
    with pytest.raises(UsageError, match=r"^--choose: these are old models"):
        choose_update([tmp_path / "a" / "old"])
    made_seed(tmp_path / "b", 2, {"mpt-lm": 2.0})
    with pytest.raises(UsageError, match=r"^--choose: no seed has all rows \(no-treatment, mpt-lm\)"):
        choose_update([one, tmp_path / "b" / "mpt-lm"])
    made_update(tmp_path / "c", "no-treatment", 0, 1, val=no_answers())
    with pytest.raises(DataError, match=r"no-treatment: no validation sample is of an old class"):
        choose_update([tmp_path / "c"])
    few = made_part(np.array([0, 3, 3, 3]), np.eye(CLASSES)[[0, 3, 3, 3]])
    for method in ("no-treatment", "pct-kl"):
        made_run(tmp_path / "d" / method, method, 1, few, few)
    made_run(tmp_path / "d" / "old", "no-treatment", 1, few, few, old=None, num_known=NUM_OLD)
    with pytest.raises(DataError, match=r"too few validation samples of old classes for two halves"):
        choose_update([tmp_path / "d"])


def test_where_no_class_is_new_rows_are_compared_as_trained(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    label = rng.integers(NUM_OLD, size=60)
    for method, strength in (("old", 3.0), ("no-treatment", 1.0), ("pct-kl", 3.0)):
        logits = rng.normal(size=(60, NUM_OLD))
        logits[np.arange(60), label] += strength
        part = made_part(label, logits)
        made_run(
            tmp_path / method, "no-treatment" if method == "old" else method, 1, part, part,
            old=None if method == "old" else "old", num_known=NUM_OLD, classes=NUM_OLD,
        )  # fmt: skip
    choice = choose_update([tmp_path])
    assert len(choice.commands) == 1
    updates = find_updates([tmp_path], None, part="val").updates
    assert {row.name: row.flips.values for row in choice.rows} == {
        update.run.recipe.method.name: [update.flips] for update in updates
    }
