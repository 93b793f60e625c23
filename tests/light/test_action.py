"""The GitHub action: GitHub's schema, its shell by shellcheck, and its steps on releases of every verdict."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from tests.common import ROOT, environment, programs, write_release

ACTION = ROOT / "action.yml"
PROGRAMS = Path(sys.executable).parent
Gate = Callable[..., tuple[int, dict[str, str]]]
# As GitHub runs a step with `shell: bash`.
BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")


def step(name: str) -> Any:
    """A step of the action."""
    (found,) = [
        step for step in yaml.safe_load(ACTION.read_text())["runs"]["steps"] if step.get("name") == name
    ]
    return found


def test_the_action_and_the_example_fit_the_schemas_of_github() -> None:
    for schema, file in (("actions", ACTION), ("workflows", ROOT / "examples" / "ci" / "github.yml")):
        words = [PROGRAMS / "check-jsonschema", "--builtin-schema", f"vendor.github-{schema}", file]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["Install", "Gate", "Summary", "Comment"])
def test_the_shell_is_clean(name: str) -> None:
    words = [PROGRAMS / "shellcheck", "--shell=bash", "-"]
    done = subprocess.run(words, input=step(name)["run"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    """The steps `Gate` and `Summary` on a release: the exit code of the first, and the outputs."""
    write_release(tmp_path)
    (tmp_path / "damaged.npz").write_bytes(b"PK no archive")
    programs(tmp_path / "mptctl" / "bin")

    def run(**inputs: str) -> tuple[int, dict[str, str]]:
        given = dict.fromkeys(step("Gate")["env"], "") | {"OLD": "old.npz", "NEW": "new.npz"} | inputs
        assert set(given) == {"OLD", "NEW", "GATE", "MAX_NFR", "OLD_CLASSES", "METADATA", "CONFIDENCE"}
        outputs = tmp_path / "outputs"
        outputs.write_text("")
        places = {
            "GITHUB_OUTPUT": outputs,
            "GITHUB_STEP_SUMMARY": tmp_path / "summary.md",
            "RUNNER_TEMP": tmp_path,
        }
        variables = environment(**given, **{name: str(place) for name, place in places.items()})
        codes = [
            subprocess.run([*BASH, step(name)["run"]], cwd=tmp_path, env=variables, check=False).returncode
            for name in ("Gate", "Summary")
        ]
        assert codes[1] == 0
        return codes[0], dict(line.split("=") for line in outputs.read_text().splitlines())

    return run


@pytest.mark.parametrize(
    ("limits", "code", "verdict"),
    [("max_nfr: 5", 0, "pass"), ("max_nfr: 4", 3, "fail"), ("max_nfr: 6}, confidence: 0.95", 3, "undecided")],
)
def test_a_gate_file_gives_the_verdict(
    gate: Gate, tmp_path: Path, limits: str, code: int, verdict: str
) -> None:
    limits, _, more = limits.partition("}")
    (tmp_path / "gate.yaml").write_text(f"limits: {{{limits}}}\n{more.lstrip(', ')}\n")
    assert gate(GATE="gate.yaml") == (code, {"verdict": verdict, "nfr": "0.05"})
    assert ": NFR 5.00 % " in (tmp_path / "summary.md").read_text()
    written = {path.name for path in (tmp_path / "gate").iterdir()}
    assert written == {"gate.json", "gate.md", "gate.xml", "gate.html"}
    assert json.loads((tmp_path / "gate" / "gate.json").read_text())["gate"]["answer"] == verdict


def test_a_limit_alone_is_enough_and_none_or_a_damaged_file_is_an_error(gate: Gate) -> None:
    assert gate(MAX_NFR="5") == (0, {"verdict": "pass", "nfr": "0.05"})
    assert gate() == (2, {"verdict": "error"})
    assert gate(NEW="damaged.npz", MAX_NFR="5") == (4, {"verdict": "error", "nfr": ""})


def test_a_csv_that_pandas_writes_is_gated_with_its_old_classes(gate: Gate, tmp_path: Path) -> None:
    """OLD knows ten classes but never answers the tenth, and NEW knows two more.

    All 899 samples count as old where nothing says otherwise, 10 of them flips (1.11 %); of the ten old classes
    there are 722, so that 1.39 % is right.
    """
    label = np.repeat([f"c{i:02d}" for i in range(12)], [72] * 8 + [73] * 2 + [88, 89])
    old = np.where(label == "c09", "c08", np.where(label > "c09", "c00", label))
    new = np.where(np.arange(899) < 10, "c11", label)
    for name, pred in (("old", old), ("new", new)):
        frame = pd.DataFrame({"id": np.arange(899), "label": label, "pred": pred, "country": "de"})
        frame[["id", "label", "pred"]].to_csv(tmp_path / f"{name}.csv", index=False)
    frame[["id", "country"]].to_csv(tmp_path / "meta.csv", index=False)
    (tmp_path / "old.txt").write_text("".join(f"c{i:02d}\n" for i in range(10)))
    files = {"OLD": "old.csv", "NEW": "new.csv"}
    code, outputs = gate(**files, MAX_NFR="3", OLD_CLASSES="old.txt", CONFIDENCE="0.95")
    assert (code, outputs["verdict"], float(outputs["nfr"])) == (0, "pass", 10 / 722)
    assert gate(**files, MAX_NFR="2", OLD_CLASSES="old.txt", CONFIDENCE="0.95")[1]["verdict"] == "undecided"
    rules = "old_classes: old.txt\nlimits: {max_nfr: 2}\nslices: [{by: {country: de}, max_nfr: 2}]\n"
    (tmp_path / "gate.yaml").write_text(rules)
    code, outputs = gate(**files, GATE="gate.yaml", METADATA="meta.csv")
    assert (code, outputs["verdict"], float(outputs["nfr"])) == (0, "pass", 10 / 722)
    assert gate(**files, GATE="gate.yaml", METADATA="meta.csv", OLD_CLASSES="all")[0] == 2


def test_a_second_use_in_a_job_publishes_nothing_of_the_first(gate: Gate, tmp_path: Path) -> None:
    gate(MAX_NFR="5")
    (tmp_path / "summary.md").unlink()
    (tmp_path / "broken.yaml").write_text("limits: [\n")
    of_first = shutil.copytree(tmp_path / "gate", tmp_path / "of the first")
    for inputs in ({}, {"GATE": "broken.yaml"}):
        shutil.copytree(of_first, tmp_path / "gate", dirs_exist_ok=True)
        assert (tmp_path / "gate" / "gate.md").exists()
        code, outputs = gate(**inputs)
        assert (code, outputs["verdict"]) == (2, "error")
        assert not (tmp_path / "summary.md").exists()
        assert not (tmp_path / "gate" / "gate.md").exists()


# Keeps the comments of a pull request in a folder, one a file, and does what `gh api` is asked for with them.
GH = """#!/usr/bin/env python3
import os, pathlib, sys
words, folder = sys.argv[1:], pathlib.Path(os.environ["COMMENTS"])
place = next(word for word in words if word.startswith("repos/"))
if "--jq" in words:
    assert place == "repos/me/mine/issues/7/comments", place
    assert words[words.index("--jq") + 1] == ".[] | select(.body | startswith(env.mark)) | .id"
    for path in sorted(folder.iterdir()):
        if path.read_text().startswith(os.environ["mark"]):
            print(path.name)
    sys.exit()
body = pathlib.Path(words[words.index("--field") + 1].removeprefix("body=@")).read_text()
method = words[words.index("--method") + 1]
name = place.rpartition("/")[2] if method == "PATCH" else str(1 + len(list(folder.iterdir())))
(folder / name).write_text(body)
"""


def test_each_push_edits_the_comment_of_the_last_one(tmp_path: Path) -> None:
    """Two gates of one job have a comment each; somebody else's comment stays as it is."""
    comments, gate = tmp_path / "comments", tmp_path / "gate"
    comments.mkdir()
    gate.mkdir()
    (comments / "1").write_text("A reviewer's words on <!-- mptctl gate: one -->")
    (tmp_path / "gh").write_text(GH)
    (tmp_path / "gh").chmod(0o755)
    variables = environment(
        COMMENTS=str(comments), RUNNER_TEMP=str(tmp_path), REPOSITORY="me/mine", PULL_REQUEST="7", GH_TOKEN="x",
        PATH=f"{tmp_path}:{os.environ['PATH']}",
    )  # fmt: skip
    for push, name in (("first", "one"), ("first", "two"), ("second", "one"), ("third", "one")):
        (gate / "gate.md").write_text(f"### {push}\n")
        subprocess.run([*BASH, step("Comment")["run"]], env=variables | {"NAME": name}, check=True)
    texts = {path.name: path.read_text() for path in comments.iterdir()}
    assert texts == {
        "1": "A reviewer's words on <!-- mptctl gate: one -->",
        "2": "<!-- mptctl gate: one -->\n### third\n",
        "3": "<!-- mptctl gate: two -->\n### first\n",
    }
