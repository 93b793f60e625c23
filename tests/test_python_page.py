"""docs/python.md: every snippet runs, in order, and gives what stands beside it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from mptctl.models.checkpoint import CheckpointMeta, save_checkpoint
from mptctl.models.networks import build_model
from mptctl.recipe import load_recipe
from tests.common import ROOT, smooth_picture

pytestmark = pytest.mark.docs

PAGE = ROOT / "docs" / "python.md"
# A comment that is a value, and no words: it must be what the expression before it gives.
VALUE = re.compile(r"(None|True|False|[\d.]+|'.*'|[\[(<].*[\])>]|\w+\('.*'\))")


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page takes for granted: a run called mpt-kl and a folder of pictures, one of them damaged."""
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe("digits", ["data.image_size=16", "data.threads=1"], {"method.name": "mpt-kl"})
    torch.manual_seed(0)
    model = build_model(recipe.model, 2, recipe.data.image_size)
    meta = CheckpointMeta(recipe=recipe, class_names=("cat", "dog"), num_old=1)
    save_checkpoint(tmp_path / "runs" / "mpt-kl" / "best.pt", meta, model.state_dict())
    (tmp_path / "incoming" / "more").mkdir(parents=True)
    smooth_picture(40, 30, 1).save(tmp_path / "incoming" / "a.png")
    smooth_picture(30, 40, 2).save(tmp_path / "incoming" / "more" / "b.png")
    (tmp_path / "incoming" / "bad.png").write_bytes(b"")


def run(snippet: str, names: dict[str, Any]) -> int:
    """Run a snippet; how many of its expressions were held against the value in the comment behind them."""
    checked, lines = 0, snippet.splitlines()
    for statement in ast.parse(snippet).body:
        code = compile(ast.Module([statement], []), "python.md", "exec")
        if not isinstance(statement, ast.Expr):
            exec(code, names)
            continue
        found = eval(compile(ast.Expression(statement.value), "python.md", "eval"), names)
        _, _, comment = lines[(statement.end_lineno or 0) - 1].partition("  # ")
        if VALUE.fullmatch(comment):
            assert repr(found) == comment, statement
            checked += 1
    return checked


@pytest.mark.usefixtures("beside")
def test_every_snippet_runs_and_gives_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    snippets = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    assert [run(snippet, names) for snippet in snippets] == [4, 2, 3, 2, 6, 2, 1, 1]
    assert re.findall(r"# says: (.*)\n", page) == capsys.readouterr().out.splitlines()


def test_a_wrong_value_would_be_found() -> None:
    with pytest.raises(AssertionError):
        run("1 + 1  # 3", {})
    assert run("1 + 1  # 2\nx = 3  # words\nx  # not a value", {}) == 1
