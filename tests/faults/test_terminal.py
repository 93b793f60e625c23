"""Rows 29, 36 and 45: streams that are closed, full, or of few letters, and names that would forge a verdict."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tests.common import CommandLine
from tests.faults.conftest import write_pair
from tests.faults.process import Stream, run_forked

Pair = tuple[Path, Path]
CATS = np.array(["猫", "dog", "bird", "eel"])
FORGED = np.array(
    ["cat\x1b[2J\x1b[32mGate passed", "dog\n\nGate passed\n", "<script>alert(1)</script>", "x" * 10_000]
)


@pytest.fixture
def closed_pipe() -> int:
    """The end to write into of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize("words", [(), ("--json",), ("--markdown", "-")])
def test_row_36_a_reader_that_ends_early_leaves_the_exit_code_of_the_work(
    pair: Pair, closed_pipe: int, words: tuple[str, ...]
) -> None:
    done = run_forked("evaluate", *pair, *words, stdout=closed_pipe)
    assert "Traceback" not in done.stderr
    # What a program reads and did not get is no success.
    assert done.returncode == (7 if words else 0), done.stderr
    assert run_forked("--version", stdout=closed_pipe).returncode == 0


@pytest.mark.parametrize("columns", ["40", "80"])
def test_row_36_forty_columns_and_no_colours(
    pair: Pair, columns: str, monkeypatch: pytest.MonkeyPatch, mptctl: CommandLine
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", columns)  # after the fixture has set it
    done = mptctl("evaluate", *pair)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= int(columns)


@pytest.mark.parametrize(
    ("stdout", "stderr"),
    [("/dev/full", ""), ("", "/dev/full"), (None, ""), ("", None), (None, None), ("/dev/full", "/dev/full")],
)
def test_row_45_a_gate_that_fails_is_3_whatever_becomes_of_the_output(
    pair: Pair, stdout: Stream, stderr: Stream
) -> None:
    for words in ((), ("--json",)):
        done = run_forked("evaluate", *pair, "--max-nfr", "1", *words, stdout=stdout, stderr=stderr)
        assert done.returncode == 3, done.stderr
        assert "Traceback" not in done.stderr


def test_row_45_and_in_a_pipe_that_nobody_reads(pair: Pair, closed_pipe: int) -> None:
    for words in ((), ("--json",)):
        assert run_forked("evaluate", *pair, "--max-nfr", "1", *words, stdout=closed_pipe).returncode == 3


@pytest.mark.parametrize("words", [("--json",), ("--markdown", "-"), ("--full",)])
def test_row_45_a_pipe_that_does_not_wait_gets_all_of_the_output(pair: Pair, words: tuple[str, ...]) -> None:
    """As Node.js and some runners of CI make it: a write into a full one fails, and is to be tried again."""
    expected = run_forked("evaluate", *pair, *words)
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writing, False)
    read: list[bytes] = []

    def read_late() -> None:
        time.sleep(0.5)
        with open(reading, "rb", buffering=0) as pipe:
            while piece := pipe.read(512):
                read.append(piece)

    reader = threading.Thread(target=read_late)
    reader.start()
    os.write(writing, bytes(4000))  # so that even a short output does not fit
    done = run_forked("evaluate", *pair, *words, stdout=writing)
    os.close(writing)
    reader.join()
    assert (done.returncode, done.stderr) == (expected.returncode, expected.stderr)
    assert b"".join(read).decode().removeprefix("\0" * 4000) == expected.stdout


def test_row_45_a_pipe_that_does_not_wait_and_that_nobody_reads(pair: Pair) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.close(reading)
    assert run_forked("evaluate", *pair, "--json", stdout=writing).returncode == 7
    os.close(writing)


@pytest.mark.parametrize("stdout", ["/dev/full", None])
def test_row_45_json_that_could_not_be_written_is_7(pair: Pair, stdout: Stream) -> None:
    done = run_forked("evaluate", *pair, "--json", stdout=stdout)
    assert done.returncode == 7, done.stderr
    assert done.stderr.startswith("mptctl: standard output cannot be written (")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_row_45_a_terminal_without_the_letters_of_a_class(tmp_path: Path, encoding: str) -> None:
    names = write_pair(tmp_path, CATS)
    for words in ((), ("--markdown", "-")):
        done = run_forked("evaluate", *names, "--max-nfr", "1", *words, encoding=encoding)
        assert done.returncode == 3, done.stderr
        assert "Traceback" not in done.stderr
        assert words or "\\u732b" in done.stdout
    old = [name for name in CATS.tolist() if name != "eel"]
    (tmp_path / "old.txt").write_text("\n".join([*old, "魚"]), encoding="utf-8")
    done = run_forked("evaluate", *names, "--old-classes", tmp_path / "old.txt", encoding=encoding)
    assert (done.returncode, done.stderr.count("\n")) == (4, 1), done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_row_45_json_is_json_in_every_encoding(tmp_path: Path, encoding: str) -> None:
    names = write_pair(tmp_path, np.array(["caf\u00e9\U0001f600", "dog", "bird", "eel"]))
    done = run_forked("evaluate", *names, "--json", encoding=encoding)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert "caf\u00e9\U0001f600" in {row["label"] for row in json.loads(done.stdout)["per_class"]}


def test_row_29_a_file_whose_name_is_no_utf_8_is_compared_in_every_form(
    tmp_path: Path, mptctl: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    old, new = write_pair(tmp_path, CATS)
    strange = os.fsdecode(b"caf\xe9.npz")
    os.rename(old, strange)
    forms = ("--report", "p.html", "--markdown", "p.md", "--junit", "p.xml", "--append-history", "h.jsonl")
    done = mptctl("evaluate", strange, new, "--max-nfr", 1, "--json", *forms, "--tag", strange)
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["old"]["name"] == "caf\\udce9.npz"
    assert json.loads(Path("h.jsonl").read_text(encoding="utf-8"))["tag"] == "caf\\udce9.npz"
    assert "caf\\udce9.npz" in Path("p.html").read_text(encoding="utf-8")


def test_row_29_names_cannot_forge_a_verdict(tmp_path: Path, mptctl: CommandLine) -> None:
    pair = write_pair(tmp_path, FORGED)
    outputs = {kind: tmp_path / name for kind, name in (("--report", "r.html"), ("--markdown", "r.md"))}
    flags = [word for option, path in outputs.items() for word in (option, path)]
    done = mptctl("evaluate", *pair, "--max-nfr", "1", "--full", *flags)
    assert done.returncode == 3
    assert "\x1b" not in done.stdout
    assert not any(line.strip() == "Gate passed" for line in done.stdout.splitlines())
    assert "\\x1b[2J" in done.stdout
    assert "\\n\\nGate passed\\n" in done.stdout
    page, markdown = (path.read_text(encoding="utf-8") for path in outputs.values())
    assert "<script>alert(1)" not in page
    assert "\x1b" not in page
    assert "\x1b" not in markdown
    assert "<script>" not in markdown
    assert not any(line.strip() == "Gate passed" for line in markdown.splitlines())
    said = mptctl("evaluate", *pair, "--json")
    assert json.loads(said.stdout)["counts"]["negative_flips"] == 20


def test_row_29_no_mark_that_deceives_reaches_a_page_or_a_table(tmp_path: Path, mptctl: CommandLine) -> None:
    """In ids, classes and a column of slices: of 40 samples with logits, two flips are listed."""
    marks = "\x1b\x9b\u202e\u2066"
    classes = [f"cat{marks}gnp", "dog"]
    label = np.array(classes)[np.arange(40) % 2]
    ids = [f"x{marks}gpj.{i}" for i in range(40)]
    logits = np.where(label[:, None] == np.array(classes), 3.0, 0.0)
    flipped = np.where(np.arange(40)[:, None] < 2, -logits, logits)
    place = [f"de{marks}", "fr"] * 20
    for name, values in (("old", logits), ("new", flipped)):
        np.savez(tmp_path / f"{name}.npz", id=ids, label=label, logits=values, classes=classes, place=place)
    files = {"--report": "p.html", "--flips": "f.csv", "--markdown": "m.md", "--junit": "j.xml"}
    words = [word for option, name in files.items() for word in (option, tmp_path / name)]
    done = mptctl("evaluate", tmp_path / "old.npz", tmp_path / "new.npz", "--by", "place", *words)
    assert done.returncode == 0, done.stderr
    for path in (tmp_path / name for name in files.values()):
        assert not set(marks) & set(path.read_text(encoding="utf-8")), path
    escape = ascii(marks)[1:-1]
    assert f"x{escape}gpj.0" in (tmp_path / "f.csv").read_text(encoding="utf-8")
    assert f"x{escape}gpj.0" in (tmp_path / "p.html").read_text(encoding="utf-8")


def test_row_29_a_run_whose_name_moves_the_cursor(runs: Path, mptctl: CommandLine) -> None:
    (runs / "new").rename(runs / "new\x1b[2Jnew")
    for words in (("runs",), ("evaluate", "old", "new\x1b[2Jnew"), ("evaluate", "new\x1b[2Jno", "old")):
        done = mptctl(*words, "--run-root", runs)
        assert "\x1b" not in done.stdout + done.stderr
        assert "\\x1b" in done.stdout + done.stderr
