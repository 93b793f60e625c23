"""Results that are kept of a run: the metrics of a long one in part, and no folder of the machine."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from mptctl.models.metrics_log import MetricsLine
from mptctl.studies.answers_file import PARTS, AnswersHead, read_answers
from tests.common import CommandLine
from tests.studies.made_runs import made_part, made_run
from tools.keep_results import MOST_STEPS, keep_run, thin_metrics

RESULTS = Path(__file__).parents[2] / "results"


def metrics(steps: int, epochs: int) -> bytes:
    """As a run writes them: a line for each step, and one at the end of each epoch."""
    lines = []
    for epoch in range(1, epochs + 1):
        first, last = (epoch - 1) * steps + 1, epoch * steps
        lines += [
            MetricsLine(event="step", epoch=epoch, step=step, lr=0.1) for step in range(first, last + 1)
        ]
        lines.append(MetricsLine(event="epoch", epoch=epoch, step=last, val_error=0.5))
    return b"".join(line.model_dump_json(exclude_none=True).encode() + b"\n" for line in lines)


@pytest.mark.parametrize("steps", [1, MOST_STEPS // 2])
def test_a_short_run_is_kept_whole(steps: int) -> None:
    assert thin_metrics(metrics(steps, 2)) == metrics(steps, 2)


def test_of_a_long_run_all_epochs_stay_and_steps_from_its_beginning_to_its_end() -> None:
    whole = metrics(1000, 3)
    kept = [json.loads(line) for line in thin_metrics(whole).splitlines()]
    assert [line["step"] for line in kept if line["event"] == "epoch"] == [1000, 2000, 3000]
    steps = [line["step"] for line in kept if line["event"] == "step"]
    assert len(steps) == MOST_STEPS
    assert (steps[0], steps[-1]) == (1, 3000)
    apart = {later - earlier for earlier, later in pairwise(steps)}
    assert apart == {6, 7}  # 2,999 steps in 499 equal parts are 6.01 each
    assert all(line in whole.splitlines() for line in thin_metrics(whole).splitlines())


def test_where_the_pictures_lay_is_not_kept(tmp_path: Path) -> None:
    part = made_part(np.array([0, 1, 5]), np.eye(6)[[0, 1, 5]])
    run = tmp_path / "run"
    made = made_run(run, "no-treatment", 1, part, part, old=None, split={"data_root": "/home/jo/pictures"})
    environment = {"started": "now", "versions": {}, "device": "cpu", "cpu_threads": 1, "git_commit": None}
    (run / "environment.json").write_text(json.dumps({"command": ["/home/jo/mptctl"], **environment}))
    (run / "metrics.jsonl").write_bytes(metrics(1, 1))
    (run / "tuning.json").write_text("{}")
    for _ in range(2):
        keep_run(run, tmp_path / "kept")
    assert (tmp_path / "kept" / "tuning.json").read_text() == "{}"
    kept = read_answers(tmp_path / "kept")
    assert kept is not None
    assert kept.head.request.data_root is None
    assert kept.head.digest == made.head.digest
    for name in PARTS:
        assert (kept.part(name).right() == made.part(name).right()).all()
    assert "/home/jo" not in (tmp_path / "kept" / "environment.json").read_text()
    (run / "environment.json").write_text(json.dumps({"command": [], **environment, "started": "later"}))
    with pytest.raises(SystemExit, match="keeps another run"):
        keep_run(run, tmp_path / "kept")


def test_the_results_that_are_kept_here_name_no_folder() -> None:
    found = []
    for path in RESULTS.rglob("answers.npz"):
        with np.load(path) as arrays:
            found.append(AnswersHead.model_validate_json(bytes(arrays["head"])))
    assert len(found) > 100
    assert {head.request.data_root for head in found} == {None}


@pytest.mark.parametrize("name", ["metrics.jsonl.gz", "answers.npz"])
def test_damaged_results_are_named_by_their_file(tmp_path: Path, mptctl: CommandLine, name: str) -> None:
    """Cut short, of another kind, and with some bytes changed: each is 5, or is read where it changes nothing."""
    kept = tmp_path / "kept"
    shutil.copytree(RESULTS / "demo", kept)
    path = kept / "0" / "mpt-kl" / name
    sound = path.read_bytes()
    rng, damaged = np.random.default_rng(0), [sound[:50], b"not gz"]
    for _ in range(20):
        changed = bytearray(sound)
        for place in rng.integers(10, len(sound), 4):
            changed[place] ^= int(rng.integers(1, 256))
        damaged.append(bytes(changed))
    codes = []
    for content in damaged:
        path.write_bytes(content)
        done = mptctl("compare", kept)
        codes.append(done.returncode)
        assert done.returncode in (0, 5), done.stderr
        assert done.returncode == 0 or name in done.stderr
    assert codes[:2] == [5, 5]
    assert codes.count(5) > 10
