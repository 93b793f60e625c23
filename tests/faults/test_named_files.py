"""Row 62: files that a gate file or a study names, or is a link to, are not printed, whatever they are."""

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


# What a gate file or a study may be a link to, and what is said of it.
FOREIGN = {
    PRIVATE_KEY: "must be a mapping of keys",
    SHADOW: "line 1: unknown key; valid: ",
    f"{SECRET} " * 500: "must be a mapping of keys",
    f"[{SECRET}, {SECRET}]": "must be a mapping of keys",
    f"user: me\npassword: {SECRET}": "line 1: unknown key; valid: ",
    f"seeds: {{{SECRET}: 1}}\nlimits: {{{SECRET}: 1}}\n{SECRET}: 1": ": unknown key; valid: ",
    f"password: !{SECRET} x": "line 1: a tag, such as !!int, is not allowed",
    f"password: !{SECRET}!x": "line 1, column 11: while parsing a node; found undefined tag handle",
    f"password: &{SECRET} x": "line 1: anchors and aliases are not allowed",
    f"{SECRET}: x\n{SECRET}: y": "line 2: the key of line 1 once more",
    f"password: {{{SECRET}\n": "line 2, column 1: while parsing a flow mapping; expected ',' or '}'",
    f"password: '{SECRET}\n": "line 2, column 1: while scanning a quoted scalar; found unexpected end of stream",
    f'password: "\\{SECRET}"': "line 1, column 13: while scanning a double-quoted scalar; found unknown escape",
}


@pytest.mark.parametrize("content", FOREIGN, ids=range(len(FOREIGN)))
def test_row_62_a_gate_file_or_study_that_is_a_link_to_another_file_does_not_print_it(
    mptctl: CommandLine, secrets: Path, content: str
) -> None:
    Path("secret").write_text(content)
    Path("gate.yaml").symlink_to("secret")
    for words in (("evaluate", "old.npz", "new.npz", "--gate", "gate.yaml"), ("study", "gate.yaml")):
        done = mptctl(*words)
        assert (done.returncode, FOREIGN[content] in done.stderr) == (2, True), done.stderr
        assert SECRET not in done.stdout + done.stderr


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
