"""Rows of the table of methods: the runs that stand in one, in another, or are counted once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mptctl.errors import CheckpointError
from mptctl.studies.compare import compare_runs
from mptctl.studies.comparison import BIAS_ROW
from tests.studies.made_runs import CLASSES, made_part, made_run, made_seed, random_part


def test_settings_part_rows_and_names_part_runs_of_one_setting(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    made_seed(tmp_path, 1, {"no-treatment": 2.0})
    label = rng.integers(CLASSES, size=400)
    for name, k in (("k1", 1.0), ("k2", 2.0), ("k2-again", 2.0)):
        part = made_part(label, rng.normal(size=(400, CLASSES)))
        made_run(
            tmp_path / name, "mpt-kl", 1, part, part, refs=1, settings={"method.k": k}, ref=f"{name} ref"
        )
    comparison = compare_runs([tmp_path])
    assert [each.name for each in comparison.rows] == ["no-treatment", BIAS_ROW, "k1", "k2", "k2-again"]
    assert {each.method for each in comparison.rows[2:]} == {"mpt-kl"}


def test_a_plain_update_from_the_old_weights_is_named_so(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    label = made_seed(tmp_path / "a", 1, {"no-treatment": 2.0, "mpt-kl": 2.0})["old"].test.label
    warm: dict[str, object] = {"method.init": "old"}
    for folder in ("b/no-treatment", "a/plain-old"):
        part = random_part(rng, label, 2.5)
        epochs: dict[str, object] = {"optim.epochs": 7} if folder.startswith("a") else {}
        made_run(
            tmp_path / folder, "no-treatment", 1, part, part, settings=warm | epochs, digest=folder,
            old_digest="old-1",
        )  # fmt: skip
    part = random_part(rng, label, 2.5)
    made_run(tmp_path / "a" / "kl-old", "mpt-kl", 1, part, part, refs=1, settings=warm)
    made = compare_runs([tmp_path / "a", tmp_path / "b/no-treatment"], old=tmp_path / "a" / "old")
    assert [(row.name, row.method, row.init) for row in made.rows] == [
        ("no-treatment", "no-treatment", "fresh"),
        ("plain from the old weights", "no-treatment", "old"),
        ("plain-old", "no-treatment", "old"),
        ("kl-old", "mpt-kl", "old"),
        ("mpt-kl", "mpt-kl", "fresh"),
    ]


def test_rows_of_other_settings_have_other_names(tmp_path: Path) -> None:
    names_of_k = {1: {1.0: "k1", 2.0: "k2", 3.0: "k3"}, 2: {1.0: "k2", 2.0: "k1", 3.0: "k3"}}
    rng = np.random.default_rng(0)
    for seed, names in names_of_k.items():
        label = made_seed(tmp_path / str(seed), seed, {"no-treatment": 2.0})["old"].test.label
        for k, name in names.items():
            part = random_part(rng, label, 3.0)
            made_run(
                tmp_path / str(seed) / name, "mpt-kl", seed, part, part, refs=1, settings={"method.k": k}
            )
    found = compare_runs([tmp_path], against="mpt-kl (k2)")
    assert [(row.name, [Path(run).name for run in row.runs]) for row in found.rows[1:]] == [
        ("k3", ["k3", "k3"]),
        ("mpt-kl (k1)", ["k1", "k2"]),
        ("mpt-kl (k2)", ["k2", "k1"]),
    ]
    assert [row.name for row in found.rows if row.differences is None] == ["mpt-kl (k2)"]


def test_old_models_of_another_recipe_on_other_splits_part_a_row_too(tmp_path: Path) -> None:
    made_seed(tmp_path / "1", 1, {"mpt-kl": 2.0})
    made_seed(tmp_path / "2", 2, {"mpt-kl": 2.0})
    assert [each.seeds for each in compare_runs([tmp_path]).rows] == [[1, 2]]
    recipe = tmp_path / "2" / "old" / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("name: ce", "name: ls"))
    assert sorted(each.seeds for each in compare_runs([tmp_path]).rows) == [[1], [2]]
    # The name of a row does not depend on the order in which its seeds are named.
    made_seed(tmp_path / "3", 3, {"mpt-kl": 2.0})
    for seeds in ("123", "321"):
        found = compare_runs([tmp_path / seed for seed in seeds])
        assert [(row.name, row.seeds) for row in found.rows] == [
            (f"mpt-kl ({tmp_path}/1)", [1, 3]),
            (f"mpt-kl ({tmp_path}/2)", [2]),
        ]


def test_other_splits_are_refused(tmp_path: Path) -> None:
    strengths = {"no-treatment": 2.0, "mpt-kl": 2.0}
    made_seed(tmp_path / "a" / "1", 1, strengths)
    made_seed(tmp_path / "b" / "1", 1, strengths, split={"old_fraction": 0.4}, fingerprint="other")
    made_seed(tmp_path / "c" / "1", 1, strengths, fingerprint="third")
    with pytest.raises(CheckpointError, match=r"old_fraction 0\.5 or 0\.4.*compare runs of one split"):
        compare_runs([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(CheckpointError, match="other pictures or classes with split seed 1"):
        compare_runs([tmp_path / "a", tmp_path / "c"])


def test_half_precision_is_another_row(tmp_path: Path) -> None:
    made_seed(tmp_path / "1", 1, {"no-treatment": 2.0})
    made_seed(tmp_path / "2", 2, {"no-treatment": 2.0}, settings={"runtime.precision": "bf16"})
    rows = compare_runs([tmp_path / "1", tmp_path / "2"]).rows
    assert [row.seeds for row in rows if row.method == "no-treatment"] == [[1], [2]]
