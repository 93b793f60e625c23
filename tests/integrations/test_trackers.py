"""`--log` against the trackers' own libraries, without a server: what stands there after training and comparing."""

from __future__ import annotations

import json
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mptctl.cli.app import main
from mptctl.data.split import make_split
from mptctl.models.run_list import list_runs
from mptctl.names import TrackerName
from mptctl.report.trackers.guarded import GuardedTracker
from mptctl.report.trackers.tracker import Entry
from tests.common import CommandLine

pytest.importorskip("mlflow", reason="mlflow is not installed (make test-integrations)")
pytest.importorskip("wandb", reason="wandb is not installed (make test-integrations)")
# Warnings of other people's libraries are no failures of ours.
pytestmark = pytest.mark.filterwarnings("default")

SHORT = [f"--set={key}" for key in ("runtime.device=cpu", "runtime.threads=1", "optim.schedule=constant")]
LOG = [word for name in TrackerName for word in ("--log", name)]


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("logged") / "runs"
    make_split("digits", run_root=root)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_MODE", "offline")
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.chdir(root.parent)

        def call(*words: object) -> None:
            patch.setattr(sys, "argv", ["mptctl", *map(str, words)])
            with pytest.raises(SystemExit) as ended:
                main()
            assert ended.value.code == 0

        call("train-old", *SHORT, "--set", "optim.epochs=1", *LOG)
        call("train-old", "--resume", "--set", "optim.epochs=2", *LOG)
        call("train-baseline", "no-treatment", *SHORT, "--set", "optim.epochs=1", *LOG)
    return root


def mlflow_runs(root: Path) -> dict[str, Any]:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{root / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("mptctl")
    return {run.info.run_name: (client, run) for run in client.search_runs([experiment.experiment_id])}


def test_mlflow_has_recipe_curves_and_result(logged: Path) -> None:
    runs = mlflow_runs(logged)
    assert sorted(runs) == ["no-treatment", "old"]  # the resumed run is one
    client, old = runs["old"]
    assert (old.info.status, old.data.params["method.name"]) == ("FINISHED", "no-treatment")
    assert old.data.params["optim.epochs"] == "1"
    steps = [point.step for point in client.get_metric_history(old.info.run_id, "val_error")]
    assert len(steps) >= 3
    assert (min(steps), max(steps)) == (6, 12)
    assert {"terms/loss", "lr", "best_val_error", "val_errors"} <= old.data.metrics.keys()
    _, new = runs["no-treatment"]
    folder = Path(new.info.artifact_uri.removeprefix("file://"))
    assert {path.name for path in folder.iterdir()} == {"recipe.yaml", "metrics.jsonl", "environment.json"}
    assert (folder / "recipe.yaml").read_bytes() == (logged / "no-treatment/recipe.yaml").read_bytes()
    # What trackers keep is no run.
    assert list(logged.glob("mlflow-files/**/metrics.jsonl"))
    assert list(logged.glob("wandb/**/metrics.jsonl"))
    assert [run.run for run in list_runs(logged).runs] == ["no-treatment", "old"]


def test_wandb_has_them_in_folders_that_can_be_sent(logged: Path) -> None:
    """Each process wrote one; those of one run have one id, which `wandb sync` puts together."""
    known = {run: json.loads((logged / run / "trackers.json").read_text()) for run in ("old", "no-treatment")}
    folders = sorted((logged / "wandb").glob("offline-run-*"))
    of = {run: [path for path in folders if path.name.endswith(ids["wandb"])] for run, ids in known.items()}
    assert [len(found) for found in of.values()] == [2, 1]
    (first,) = of["no-treatment"]
    assert {"recipe.yaml", "metrics.jsonl"} <= {path.name for path in (first / "files").iterdir()}
    assert not any(path.is_symlink() for path in (first / "files").iterdir())
    kept = next(first.glob("*.wandb")).read_bytes()
    assert b"val_error" in kept
    assert b"optim.lr" in kept


@pytest.mark.usefixtures("logged")
def test_a_server_that_is_gone_ends_no_training(
    mptctl: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_split("digits", run_root=tmp_path / "runs")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # nothing listens there
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    words = ("--run-root", tmp_path / "runs", *SHORT, "--set", "optim.epochs=1", "--json")
    out = mptctl.must("train-old", *words, "--log", "mlflow")
    warnings = [line for line in out.stderr.splitlines() if "warning" in line]
    assert len(warnings) == 1
    assert warnings[0].startswith("warning: --log mlflow: failed (")
    assert warnings[0].endswith("from here on nothing is logged there, and all else goes on")
    assert json.loads(out.stdout)["steps"] == 6


def test_a_server_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.getsockname()[1]}")
        said: list[str] = []
        begun = time.monotonic()
        tracker = GuardedTracker(TrackerName.MLFLOW, Entry("run", tmp_path), said.append)
        tracker.do(lambda to: to.progress({"loss": 1.0}, 1))
        tracker.do(lambda to: to.close(finished=True))
        assert time.monotonic() - begun < 10
    assert len(said) == 1
    assert said[0].startswith("warning: --log mlflow: failed (")


def test_wandb_without_a_key_asks_nobody(
    mptctl: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_split("digits", run_root=tmp_path / "runs")
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    words = ("--run-root", tmp_path / "runs", *SHORT, "--set", "optim.epochs=1")
    out = mptctl.must("train-old", *words, "--log", "wandb")
    assert "warning: --log wandb: failed (no API key: type wandb login first, or set" in out.stderr


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_what_is_not_installed_is_one_line(
    name: str, mptctl: CommandLine, digits_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)  # as if it were not there
    out = mptctl("train-old", "--run-root", digits_root, "--log", name)
    assert out.returncode == 2
    want = f"--log {name}: needs {name}, which is not installed; pip install 'mptctl[{name}]'"
    assert want in " ".join(out.stderr.split())
    assert "Traceback" not in out.stderr
