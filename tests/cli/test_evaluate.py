"""`mptctl evaluate` as a person and a program call it: output, files, and exit codes; of two models and of one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mptctl.data.split import make_split
from tests.cli.conftest import Call
from tests.common import CommandLine


def test_parts_and_patterns_are_found_below_the_run_root_too_and_never_written_over(call: Call) -> None:
    Path("elsewhere/prod").mkdir(parents=True)
    Path("old.npz").rename("elsewhere/prod/part-0.npz")
    for name in ("prod/part-0.npz", "prod/part-*.npz", "elsewhere/prod"):
        assert call(name, "new.npz", "--run-root", "elsewhere").returncode == 0
    done = call("elsewhere/prod", "new.npz", "--markdown", "elsewhere/prod/part-0.npz")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is read by this call" in done.stderr


@pytest.mark.parametrize("first", [1, 2**63])
def test_integer_ids_are_saved_so_that_both_files_match(call: Call, first: int) -> None:
    ids = np.arange(3, dtype=np.uint64) + np.uint64(first)
    np.savez("o.npz", id=ids, label=["a", "b", "a"], pred=["a", "b", "a"])
    Path("n.csv").write_text(
        "id,label,pred\n" + "".join(f"{i},{y},a\n" for i, y in zip(ids, "aba", strict=True))
    )
    assert call("o.npz", "n.csv", "--save-predictions", "kept").returncode == 0
    again = json.loads(call("kept/old.npz", "kept/new.npz", "--json").stdout)
    assert (again["counts"]["negative_flips"], again["worst_flips"][0]["id"]) == (1, str(first + 1))


def test_a_run_is_measured_on_its_test_part_and_fitted_on_its_validation_part(
    mptctl: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    split = make_split("digits", run_root=tmp_path / "runs")
    trained = mptctl("train-old", "--set", "optim.epochs=3", "--set", "runtime.threads=1", "--device", "cpu")
    assert trained.returncode == 0, trained.stderr
    page = json.loads(mptctl("evaluate", "old", "--temperature", "fit", "--json").stdout)
    assert page["n_all"] == len(split.indices("test"))
    assert page["n"] == len(split.indices("test", split.classes.num_old)) < page["n_all"]
    assert page["n_validation"] == len(split.indices("val", split.classes.num_old))
    assert page["temperature"] > 0
    assert page["scaled"]["nll"] != page["nll"]
    both = json.loads(mptctl("evaluate", "old", "old", "--json").stdout)["old"]
    assert [both[key] for key in ("ece", "aece", "er_all")] == pytest.approx(
        [page[key] for key in ("ece", "aece", "er_all")]
    )


def test_a_fit_that_fails_is_said_and_exits_0(call: Call) -> None:
    for name, labels in (("test", [0, 1, 2]), ("one", [0, 0])):
        ids = [f"{name}/{i}" for i in range(len(labels))]
        np.savez(f"{name}.npz", id=ids, label=labels, logits=np.eye(3)[labels], classes=np.arange(3))
    done = call("test.npz", "--temperature", "one.npz")
    assert done.returncode == 0
    assert "no temperature: all validation samples are of one class" in " ".join(done.stdout.split())
    assert "as it is" not in done.stdout
