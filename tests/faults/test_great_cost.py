"""Rows 63, 64, 65 and 86: small inputs that would cost much time or memory."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from mptctl.errors import CheckpointError, UsageError
from mptctl.evaluation.reading.spelling import normal_form
from mptctl.evaluation.reading.workspace import Workspace
from mptctl.files import read_bounded
from mptctl.machine.facts import has_package
from mptctl.models.state_dict import read_state_dict
from mptctl.studies.study_file import load_study
from tests.common import CommandLine, command, environment
from tests.evaluation.files import write
from tests.faults.process import memory_limit, run_forked
from tests.faults.small_pairs import IDS, LABELS, good

ENDLESS = "/dev/zero"


@pytest.fixture(params=["device", "fifo"])
def endless(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """What may have no end, by a name that says nothing of it."""
    path = tmp_path / "list.csv"
    if request.param == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(ENDLESS)
    return path


@pytest.mark.parametrize("flag", ["--old-classes", "--class-map", "--metadata", "--gate", "must_keep"])
def test_row_63_a_file_without_an_end(tmp_path: Path, mptctl: CommandLine, endless: Path, flag: str) -> None:
    pair = good(tmp_path / "a.npz"), good(tmp_path / "b.npz", pred=["dog", *LABELS[1:]])
    words = [flag, endless, "--by", {"--metadata": "country"}.get(flag, "class")]
    if flag == "must_keep":  # a list that a gate file names
        (tmp_path / "gate.yaml").write_text("must_keep: {file: list.csv}\n")
        words = ["--gate", tmp_path / "gate.yaml"]
    done = mptctl("evaluate", *pair, *words)
    assert done.returncode == 4, done.stderr
    assert "list.csv" in done.stderr
    assert done.stderr.count("\n") == 1


def test_row_63_predictions_from_a_pipe(tmp_path: Path) -> None:
    files = good(tmp_path / "a.npz"), good(tmp_path / "b.csv")
    piped = command("evaluate", files[0], "/dev/stdin")
    run = subprocess.run(
        piped, input=files[1].read_bytes(), capture_output=True, env=environment(), cwd=tmp_path, check=False
    )
    assert run.returncode == 4
    assert run.stderr.startswith(
        b"mptctl: /dev/stdin: is no regular file, and may have no end; write it into"
    )


def test_row_63_no_more_is_read_than_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_bytes(b"a\n" * 100)
    assert len(read_bounded(tmp_path / "names.txt", 200, "names")) == 200
    with pytest.raises(UsageError, match="names: larger than 0 MB"):
        read_bounded(tmp_path / "names.txt", 199, "names")


def judged(tmp_path: Path, mptctl: CommandLine, monkeypatch: pytest.MonkeyPatch, rules: int) -> int:
    """How many queries a gate file of so many rules and waivers takes."""
    names = [f"g{i}" for i in range(rules)]
    ids = [f"s{i}" for i in range(rules)]
    label = ["cat", "dog"] * (rules // 2)
    files = [
        write(tmp_path / f"{name}.npz", id=ids, label=label, pred=pred, group=names, classes=["cat", "dog"])
        for name, pred in (("old", label), ("new", ["dog", *label[1:]]))
    ]
    gate = [f"- {{by: {{group: {name}}}, max_nfr: 50}}" for name in names]
    waivers = [f"- {{id: s{i}, reason: x, owner: y, expires: 2999-01-01}}" for i in range(rules)]
    (tmp_path / "gate.yaml").write_text("\n".join(["slices:", *gate, "waivers:", *waivers]))
    asked: list[str] = []
    fetch = Workspace.fetch

    def counted(self: Workspace, query: str, *rest: Any) -> Any:
        asked.append(query)
        return fetch(self, query, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(Workspace, "fetch", counted)
        mptctl.must("evaluate", *files, "--gate", tmp_path / "gate.yaml", "--json")
    return len(asked)


def test_row_64_queries_do_not_grow_with_rules_and_waivers(
    tmp_path: Path, mptctl: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = judged(tmp_path, mptctl, monkeypatch, 4)
    assert judged(tmp_path, mptctl, monkeypatch, 80) == few


def test_row_64_labels_of_one_form_are_looked_at_once_each(
    tmp_path: Path, mptctl: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`a-b`, `a_b` and `a b`: all pairs of 3^7 of them were 2.4 million looks."""
    from mptctl.evaluation.reading import spelling

    marks = [""]
    for _ in range(7):
        marks = [f"{before}a{mark}" for before in marks for mark in "-_ "]
    labels = [f"{mark}b" for mark in marks]
    assert len({normal_form(label) for label in labels}) == 1
    looks = 0
    as_seen = spelling._as_seen

    def counted(name: str) -> str:
        nonlocal looks
        looks += 1
        return as_seen(name)

    monkeypatch.setattr(spelling, "_as_seen", counted)
    ids = np.arange(len(labels))
    pair = [write(tmp_path / f"{n}.npz", id=ids, label=labels, pred=labels) for n in ("old", "new")]
    mptctl.must("evaluate", *pair)
    assert looks < 20 * len(labels)


def test_row_64_very_many_crossings_and_members(tmp_path: Path, mptctl: CommandLine, trained: Path) -> None:
    columns = [f"c{i}" for i in range(61)]
    pair = [good(tmp_path / f"{n}.npz", **dict.fromkeys(columns, LABELS)) for n in ("old", "new")]
    done = mptctl("evaluate", *pair, *(word for c in columns for word in ("--by", c)))
    assert (done.returncode, "at most 100 crossings of 60 columns" in done.stderr) == (2, True), done.stderr
    done = mptctl("train-ensemble", "--size", "1001", "--run-root", trained, "--dry-run")
    assert (done.returncode, "at most 1,000 members" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("change", "said"), [("ensemble: 100000000", "1000"), (f"seeds: {list(range(1001))}", "at most 1,000")]
)
def test_row_64_a_study_of_very_many_runs(tmp_path: Path, change: str, said: str) -> None:
    study = (
        "description: x\nrecipe: digits\nsplit: {source: digits}\nupdates: [{method: elodi, ref: ensemble}]\n"
    )
    ensemble = "" if "ensemble" in change else "ensemble: 2\n"
    (tmp_path / "study.yaml").write_text(f"{study}{ensemble}{change}\n")
    with pytest.raises(UsageError) as error:
        load_study(str(tmp_path / "study.yaml"))
    assert said in str(error.value)


def test_row_65_an_archive_that_unpacks_to_far_more(tmp_path: Path) -> None:
    sound, packed = tmp_path / "sound.pt", tmp_path / "packed.pt"
    torch.save({"weight": torch.zeros(5_000_000)}, sound)
    with zipfile.ZipFile(sound) as whole, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in whole.namelist():
            archive.writestr(name, whole.read(name))
    assert packed.stat().st_size < 100_000
    with pytest.raises(CheckpointError, match="unpacks to 20 MB, over 10 times its size"):
        read_state_dict(packed)
    assert read_state_dict(sound)["weight"].numel() == 5_000_000


@pytest.mark.skipif(not has_package("onnxruntime"), reason="onnxruntime is not installed (extra export)")
def test_row_65_an_onnx_model_that_asks_for_more_memory_than_there_is(tmp_path: Path) -> None:
    """In a process of its own, whose peak is measured: 192 bytes of a graph that ask for 40 TB, and for 4 GB in a
    container of 6 GB."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("6000000000\n")
    script = """
import resource, sys
from pathlib import Path
import numpy as np, torch
from onnx import TensorProto, helper, numpy_helper
from mptctl.errors import CheckpointError
from mptctl.machine.facts import usable_memory
from mptctl.models import onnx_program
from mptctl.models.onnx_program import OnnxProgram
onnx_program.usable_memory = lambda: usable_memory(Path(sys.argv[1]))
x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 3, 8, 8])
y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", "c"])
nodes = [
    helper.make_node("ConstantOfShape", ["shape"], ["big"]),
    helper.make_node("ReduceSum", ["big"], ["sum"], keepdims=0),
    helper.make_node("Flatten", ["x"], ["flat"]),
    helper.make_node("Add", ["flat", "sum"], ["y"]),
]
for side in (3, 3_000_000, 32_000):
    shape = numpy_helper.from_array(np.array([side, side]), "shape")
    graph = helper.make_graph(nodes, "g", [x], [y], [shape])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    try:
        print(tuple(OnnxProgram(model.SerializeToString(), None, "m.onnx")(torch.ones(2, 3, 8, 8)).shape))
    except CheckpointError as error:
        print(error.exit_code, str(error)[:30])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2_000_000)
"""
    out = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, env=environment(),
        check=False,
    )  # fmt: skip
    refused = "5 m.onnx: onnxruntime cannot com"
    assert out.stdout.splitlines() == ["(2, 192)", refused, refused, "True"], out.stderr[-500:]


def write_npz(path: Path, **headers: tuple[str, int]) -> Path:
    """An archive of sound predictions of 12 samples, but for some arrays of a type and length that a header gives."""
    if not path.exists():
        good(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            key = name.removesuffix(".npy")
            if key not in headers:
                archive.writestr(name, content)
                continue
            kind, length = headers[key]
            stream = io.BytesIO()
            header = {"descr": kind, "fortran_order": False, "shape": (length,)}
            np.lib.format.write_array_header_1_0(stream, header)
            archive.writestr(name, stream.getvalue() + bytes(np.dtype(kind).itemsize * length))
    return path


@pytest.mark.parametrize(
    ("key", "header", "said"),
    [
        ("pred", ("<U0", 3_000_000_000), "texts of no characters"),
        ("id", ("<U0", 12), "texts of no characters"),
        ("label", ("<U12500000", 1), "12,500,000 characters"),
        ("classes", ("|S20000000", 3), "20,000,000 characters"),
    ],
)
def test_row_86_an_archive_whose_header_asks_for_much(
    tmp_path: Path, key: str, header: tuple[str, int], said: str
) -> None:
    columns = {"classes": ["bird", "cat", "dog"]} if key == "classes" else {}
    old = write(tmp_path / "a.npz", id=IDS, label=LABELS, pred=LABELS, **columns)
    done = run_forked(
        "evaluate", write_npz(old, **{key: header}), good(tmp_path / "b.npz"), before=memory_limit(10**9)
    )
    assert (done.returncode, done.stdout) == (4, ""), done.stderr
    assert said in done.stderr
    assert f"`{key}`" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("key", "logits"), [("id", False), ("label", False), ("pred", False), ("label", True)]
)
def test_row_86_a_parquet_file_with_one_long_text_in_each_row(tmp_path: Path, key: str, logits: bool) -> None:
    """A text of 50 MB, which the file holds once in some kilobytes, and 2,000 rows that refer to it."""
    rows, long = 2000, "x" * 50_000_000
    columns: dict[str, Any] = {
        name: pa.array([f"{name}{i % 2}" for i in range(rows)]) for name in ("label", "pred")
    }
    columns["id"] = pa.array([str(i) for i in range(rows)])
    if logits:
        columns["classes"] = pa.array([["label0", "label1"]] * rows)
        columns["logits"] = pa.array([[1.0, 0.0]] * rows)
        del columns["pred"]
    columns[key] = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([long]))
    path = tmp_path / "old.parquet"
    parquet.write_table(pa.table(columns), path, compression="zstd", dictionary_pagesize_limit=2**30)
    assert path.stat().st_size < 200_000
    done = run_forked("evaluate", path, good(tmp_path / "b.npz"), before=memory_limit(2 * 10**9), at_most=300)
    assert (done.returncode, done.stdout) == (4, ""), done.stderr
    assert f"`{key}` holds a text of 50,000,000 characters" in done.stderr


@pytest.mark.parametrize("form", [".npz", ".csv", ".parquet"])
def test_row_86_texts_of_the_largest_length_are_read(tmp_path: Path, mptctl: CommandLine, form: str) -> None:
    labels = ["c" * 10_000 if label == "cat" else label for label in LABELS]
    files = [good(tmp_path / f"{name}{form}", label=labels, pred=labels) for name in "ab"]
    mptctl.must("evaluate", *files)
    longer = [f"{label}c" if label.startswith("ccc") else label for label in labels]
    files = [good(tmp_path / f"{name}{form}", label=longer, pred=longer) for name in "ab"]
    done = mptctl("evaluate", *files)
    assert (done.returncode, done.stdout) == (4, "")
    assert "10,001 characters" in done.stderr
