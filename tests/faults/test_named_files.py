"""Row 62: files that a gate file or a study names are not printed, whatever they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.common import CommandLine
from tests.faults.conftest import write_pair

SECRET = "hunter2"
PRIVATE_KEY = f"-----BEGIN PRIVATE KEY-----\n{SECRET}AAAA\nBBBB\n\n{SECRET}CCCC\n-----END PRIVATE KEY-----\n"
SHADOW = f"root:{SECRET}:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\n"


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with predictions of two models, and files that nobody else may read."""
    monkeypatch.chdir(tmp_path)
    write_pair(tmp_path, np.arange(4))
    Path("key").write_text(PRIVATE_KEY)
    Path("shadow").write_text(SHADOW)
    Path("long").write_text(f"{SECRET} " * 500)
    Path("binary").write_bytes(SECRET.encode() + b"\xff\xfe")
    Path("linked").symlink_to("key")
    Path("mixed").write_text(f"1\n{SECRET}\n7\n\n{SECRET}2\n{SECRET}3\n{SECRET}4\n{SECRET}2\n")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("key", 4, "key: lines 1, 2, 3 and 2 more name no sample of the test set"),
        ("linked", 4, "linked: lines 1, 2, 3 and 2 more name no sample of the test set"),
        ("shadow", 4, "shadow: lines 1, 2 name no sample of the test set"),
        ("mixed", 4, "mixed: lines 2, 5, 6 and 1 more name no sample of the test set"),
        ("long", 2, "long: line 1 has 3,999 characters"),
        ("binary", 2, "binary: cannot be read (not UTF-8)"),
        ("missing", 2, "missing: cannot be read (No such file or directory)"),
    ],
)
def test_row_62_a_file_that_a_gate_file_names_is_not_printed(
    mptctl: CommandLine, secrets: Path, name: str, code: int, message: str
) -> None:
    Path("gate.yaml").write_text(f"must_keep: {{file: {name}}}\n")
    outputs = ("--markdown", "out.md", "--junit", "out.xml", "--report", "out.html")
    done = mptctl("evaluate", "old.npz", "new.npz", "--gate", "gate.yaml", *outputs, "--json")
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    written = [path.read_text() for path in map(Path, outputs[1::2]) if path.exists()]
    assert not any(SECRET in text for text in (done.stdout, done.stderr, *written))


def test_row_62_an_unknown_id_of_the_gate_file_itself_is_named(mptctl: CommandLine, secrets: Path) -> None:
    Path("keep").write_text("1\n2\n")
    Path("gate.yaml").write_text("must_keep: {ids: [no-such-id], file: keep}\n")
    done = mptctl("evaluate", "old.npz", "new.npz", "--gate", "gate.yaml")
    assert done.returncode == 4
    assert "1 ids are not in the test set (no-such-id)" in done.stderr


@pytest.mark.parametrize("name", ["key", "shadow", "linked", "long", "binary", "mapping", "yaml"])
@pytest.mark.parametrize("where", ["recipe: {}", "recipe: digits\nnew: {{recipe: {}}}"])
def test_row_62_a_file_that_a_study_names_is_not_printed(
    mptctl: CommandLine, secrets: Path, name: str, where: str
) -> None:
    Path("mapping").write_text(f"{SECRET}: {SECRET}\noptim: {{lr: {SECRET}}}\n")
    Path("yaml").write_text(f"optim:\n  lr: {{{SECRET}\n")
    Path("study.yaml").write_text(
        f"description: a table\nsplit: {{source: digits}}\nupdates: [no-treatment]\n{where.format(name)}\n"
    )
    done = mptctl("study", "study.yaml", "--dry-run")
    assert done.returncode == 2
    assert f"{name}: is no valid recipe" in done.stderr
    assert SECRET not in done.stdout + done.stderr
