"""The rule of docs/research/old-weights.md: which rows count, what is within noise, and what is recommended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mptctl.studies.post_hoc_bias import bias_at_error
from tests.studies.made_runs import CLASSES, NUM_OLD, made_part, made_run, random_part
from tools.recommended_update import (
    CANDIDATES,
    DATA_SETS,
    Flips,
    candidates_of,
    flips_at_one_error,
    main,
    recommend,
)

COST = np.array([1.0, 1.0, *[2.67] * 7])


def made(flips: list[float], noise: float = 1.0, seeds: int = 4) -> Flips:
    """A data set whose seeds and draws spread about given flips."""
    rng = np.random.default_rng(0)
    means = np.array(flips)[:, None]
    by_seed = means + noise * np.linspace(-1, 1, seeds) * rng.choice([-1, 1], size=(len(flips), 1))
    return Flips("made", by_seed, means + noise * rng.normal(size=(len(flips), 500)), COST, [])


def test_the_cheapest_within_noise_of_the_fewest_is_recommended() -> None:
    clear = [900.0, 500, 300, 290, 280, 100, 310, 320, 330]
    assert recommend([made(clear)], 2.7) == "mpt-kl-old"
    assert recommend([made(clear)], 1.0) == "plain-old"
    # So much noise that nothing is told apart: then the cheapest, and of one cost the one with fewer flips.
    assert recommend([made(clear, noise=2000)], 2.7) in ("plain", "plain-old")
    near = [100.5, 500, 300, 290, 280, 100, 310, 320, 330]
    assert recommend([made(near)], 2.7) == "plain"


def test_seeds_without_a_row_do_not_count_and_k_is_chosen_on_validation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = replace(DATA_SETS[-1], seeds=(1, 2, 3))
    monkeypatch.setattr("tools.recommended_update.DATA_SETS", (*DATA_SETS[:-1], data))
    rng = np.random.default_rng(1)
    names_of_all = [name for names in data.rows.values() for name in names]
    for seed in data.seeds:
        root = tmp_path / data.study / str(seed)
        label = rng.integers(CLASSES, size=300)
        part = random_part(rng, label, 3.0, NUM_OLD)
        made_run(root / "old", "no-treatment", seed, part, part, old=None, num_known=NUM_OLD)
        for candidate, names in data.rows.items():
            for name in names:
                if (seed, name) == (3, "pct-kl-200-old"):
                    continue
                method = "mpt-kl" if candidate.startswith("mpt") else "no-treatment"
                # With k = 4 only old classes are predicted: the fewest flips, and too many errors.
                logits = rng.normal(size=(len(label), CLASSES))
                logits[np.arange(len(label)), label] += 4.0
                logits[:, NUM_OLD:] -= 20.0 if name.endswith("k4") else 0.0
                part = made_part(label, logits)
                settings = {"method.naive_weight": float(names_of_all.index(name))}
                made_run(root / name, method, seed, part, part, refs=method == "mpt-kl", settings=settings)
    monkeypatch.setattr("sys.argv", ["recommended_update", str(tmp_path)])
    assert main() == 0
    printed = capsys.readouterr().out
    assert "convergence: 0 seeds with all rows; missing in the sum" in printed
    assert f"{data.study}, seeds 1, 2: at the validation error of " in printed
    assert "-k4" not in printed
    assert printed.count("recommended at a cost of at most") == 2


def test_a_seed_that_no_shift_brings_to_the_error_counts_at_its_lowest_error(tmp_path: Path) -> None:
    data, rng = DATA_SETS[0], np.random.default_rng(1)
    for seed in (1, 2):
        root = tmp_path / data.study / str(seed)
        label = rng.integers(CLASSES, size=300)
        part = random_part(rng, label, 3.0, NUM_OLD)
        made_run(root / "old", "no-treatment", seed, part, part, old=None, num_known=NUM_OLD)
        for number, (name,) in enumerate(data.rows.values()):
            # The row that errs most on average errs least in seed 1.
            errs_most = name == "pct-kl-300-old"
            part = random_part(rng, label, {1: 9.0, 2: 0.2}[seed] if errs_most else 2.0)
            settings = {"method.naive_weight": float(number)}
            made_run(root / name, "no-treatment", seed, part, part, refs=False, settings=settings)
    seeds = [1, 2]
    found = flips_at_one_error(data, tmp_path, seeds, None)
    assert found.by_seed.shape == (len(CANDIDATES), len(seeds))
    assert found.notes[0] == "at the validation error of pct-kl-300-old"
    assert any(note == "no-treatment: counted at its lowest error in 1 of 2 seeds" for note in found.notes)
    rows, _ = candidates_of(data, tmp_path, seeds)
    plain = rows[0].updates[0]
    bias, is_reached = bias_at_error(plain.run.val, 0.0, -np.inf)
    assert not is_reached
    assert found.by_seed[0, 0] == replace(plain, bias=bias).counts.negative_flips
