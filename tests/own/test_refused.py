"""Plugins, settings and names of one's own that are refused, each in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import BaseModel, field_validator

from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.methods import build_method
from mptctl.recipe import own
from mptctl.recipe.own import load_plugins
from tests.common import CommandLine
from tests.own.conftest import IMPORTS, NETWORK, SHORT, forget, function

ROWS = "cross_entropy(z, y, reduction='none')"
BAD = {
    "syntax": ("def f(:\n", 2, "bad.py: line 1: SyntaxError: invalid syntax"),
    "no file": (None, 2, "bad.py: No such file"),
    "nothing in it": ("x = 1\n", 2, "registers nothing"),
    "missing import": ("\nimport not_there\n", 2, "line 2: ModuleNotFoundError: No module named 'not_there'"),
    "hidden import": (function("import not_there"), 2, "method bad: line 6: ModuleNotFoundError"),
    "ends the program": ("raise SystemExit(0)", 2, "line 1: SystemExit"),
    "taken": (function("pass", "mpt-kl"), 2, "method mpt-kl: the name is taken"),
    "no name": (function("pass", "a/b"), 2, "method 'a/b': cannot be a name"),
    "arguments": (function("pass", arguments="z, y"), 2, "takes 2 arguments, must take 5: logits, target"),
    "settings": (function("pass", arguments="z, y, old, ref, s: int"), 2, "settings: must be a pydantic model"),
    "teacher": (f"{IMPORTS}@mptctl.method('bad', ['rev'])\ndef f(): pass\n", 2, "no such teacher: 'rev'; did you mean"),
    "mean": (function("return {'ce': cross_entropy(z, y)}"), 2, "one number a row, shape (8,), got shape ()"),
    "other shape": (function(f"return {{'ce': {ROWS}[:, None]}}"), 2, "one number a row, shape (8,), got shape (8, 1)"),
    "a number": (function("return {'ce': 1.0}"), 2, "got float"),
    "no dict": (function(f"return {ROWS}"), 2, "must return a dict of named terms, got Tensor"),
    "name of a term": (function(f"return {{'loss': {ROWS}}}"), 2, "loss: is no name for a term"),
    "in place": (function(f"z += 1; return {{'ce': {ROWS}}}"), 2, "changes logits in place"),
    "in place, hidden": (function(f"z.data.mul_(2); return {{'ce': {ROWS}}}"), 2, "changes logits in place"),
    "labels in place": (function(f"y += 0 * y + 1; y %= 2; return {{'ce': {ROWS}}}"), 2, "changes target in place"),
    "flat": (function(f"return {{'ce': {ROWS}, 'flat': z.detach().sum(1)}}"), 2, "flat: is not differentiable"),
    "NaN": (function(f"return {{'ce': {ROWS}, 'off': z.sum(1) * float('nan')}}"), 6, "method bad: off: is not finite"),
    "gradient": (function("return {'ce': (z * 0).sum(1).sqrt()}"), 6, "its gradient is not finite"),
    "unasked teacher": (function("return {'ce': old.sum(1)}"), 2, "AttributeError: 'NoneType'"),
}  # fmt: skip


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_plugin_is_refused_in_one_line_and_nothing_is_written(
    fault: str, taught: Split, mptctl: CommandLine, tmp_path: Path
) -> None:
    text, code, message = BAD[fault]
    file = tmp_path / "bad.py"
    if text is not None:
        file.write_text(text)
    before = sorted(taught.run_root.iterdir())
    done = mptctl("train-baseline", "bad", "--plugin", file, "--run-root", taught.run_root, *SHORT)
    assert done.returncode == code, done.stderr
    (said,) = (line for line in done.stderr.splitlines() if line.startswith("mptctl:"))
    assert message in said
    assert sorted(taught.run_root.iterdir()) == before
    assert not own.registered() or fault not in ("syntax", "taken", "missing import")


LATE = """
calls = []

@mptctl.method("late")
def late(z, y, old, ref, settings):
    calls.append(1)
    if len(calls) == 4:
        {fault}
    return {{"ce": cross_entropy(z, y, reduction="none")}}
"""


@pytest.mark.parametrize("fault", ["raise KeyError('gone')", "raise SystemExit(0)"])
def test_a_later_step_that_fails_is_named_too_and_the_run_goes_on_when_it_is_mended(
    fault: str, taught: Split, mptctl: CommandLine, tmp_path: Path
) -> None:
    file, name = tmp_path / "late.py", f"late{len(fault)}"
    file.write_text(IMPORTS + LATE.format(fault=fault))
    words = ("train-baseline", "late", "--plugin", file, "--run-root", taught.run_root, "--name", name)
    failed = mptctl(*words, *SHORT)
    assert failed.returncode == 2
    assert f"method late: line 10: {fault[6:].partition('(')[0]}: " in failed.stderr
    forget()
    file.write_text(IMPORTS + LATE.format(fault="pass"))
    assert "--overwrite" in mptctl(*words, *SHORT).stderr
    mptctl.must(*words, "--resume")


@pytest.mark.parametrize("name", ["resnet18", "digits-net"])
def test_a_network_does_not_take_a_name_of_ours(
    name: str, taught: Split, mptctl: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "net.py").write_text(NETWORK.replace("two-layers", name))
    words = ("train-old", "--plugin", tmp_path / "net.py", "--run-root", taught.run_root, "--name", "named")
    done = mptctl(*words, *SHORT, "--set", f"model.arch={name}", "--dry-run")
    assert done.returncode == 2
    assert f"network {name}: the name is taken" in done.stderr


def test_logits_that_are_no_numbers_are_not_taken_for_changed_ones(muscle: Path) -> None:
    load_plugins([str(muscle)])
    logits, target = torch.full((2, 3), torch.nan), torch.tensor([0, 1])
    method = build_method("muscle", num_old=2)
    terms, _ = method.value_and_grad(logits, target, logits[:, :2], logits)
    assert terms["loss"].isnan()


def test_the_first_step_is_checked_where_random_numbers_find_nothing(
    taught: Split, mptctl: CommandLine, tmp_path: Path
) -> None:
    """The trial has eight rows; a function that fails with more of them is named at its first step."""
    file = tmp_path / "bad.py"
    file.write_text(function(f"ce = {ROWS}\n    return {{'ce': ce if len(ce) == 8 else ce.mean()}}"))
    words = (
        "train-baseline", "bad", "--plugin", file, "--run-root", taught.run_root, *SHORT, "--name", "first",
    )  # fmt: skip
    done = mptctl(*words)
    assert done.returncode == 2
    assert "method bad: ce: must be one number a row" in done.stderr


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            ["method.settings.wieght=1"],
            "method.settings.wieght: no such setting of muscle; did you mean weight?",
        ),
        (["method.wieght=1"], "unknown key method.wieght; did you mean method.settings.weight?"),
        (["method.settings.tau=abc"], "method.settings.tau: must be a valid number, got 'abc'"),
        (["method.settings.tau=0"], "method.settings.tau: must be greater than 0, got 0"),
        (["criterion.name=ls"], "criterion.name ls: muscle computes its whole loss by itself"),
        (
            ["model.settings.width=3"],
            "model.settings: are of a network of one's own, and model.arch is digits-net",
        ),
    ],
)
def test_settings_are_checked_when_the_recipe_is_read(
    keys: list[str], message: str, muscle: Path, taught: Split, mptctl: CommandLine
) -> None:
    words = ("train-baseline", "muscle", "--plugin", muscle, "--run-root", taught.run_root, "--print-recipe")
    done = mptctl(*words, *(f"--set={key}" for key in keys))
    assert done.returncode == 2
    assert message in done.stderr
    misspelt = mptctl("train-baseline", "muscl", "--plugin", muscle, "--run-root", taught.run_root)
    assert misspelt.stderr.endswith("no such method: muscl; did you mean muscle?\n")


class Odd(BaseModel):
    n: int = 1

    @field_validator("n")
    @classmethod
    def _is_odd(cls, n: int) -> int:
        if n == 2:
            raise ValueError("must be odd")
        return {1: 1}[n]


def test_settings_that_a_validator_of_ones_own_refuses_are_named() -> None:
    @own.method("odd")
    def odd(logits: Any, target: Any, old: Any, ref: Any, settings: Odd) -> Any: ...

    with pytest.raises(UsageError, match=r"method\.settings\.n: must be odd"):
        build_method("odd", num_old=2, n=2)
    with pytest.raises(UsageError, match=r"method\.settings: line \d+: KeyError: 4; in .*test_refused\.py"):
        build_method("odd", num_old=2, n=4)


def test_a_run_that_its_study_would_refuse_is_refused_by_the_dry_run(
    mptctl: CommandLine, tmp_path: Path
) -> None:
    study = tmp_path / "short.yaml"
    study.write_text(
        "description: short\nsplit: {source: digits}\nrecipe: digits\nensemble: 1\n"
        "set: {optim.epochs: 2, runtime.device: cpu}\nupdates: [{method: elodi, ref: ensemble}]\n"
    )
    for flags in (["--dry-run"], []):
        done = mptctl("study", study, "--run-root", tmp_path / "runs", *flags)
        assert done.returncode == 2
        assert "1/elodi: optim.epochs 2: the run ends before elodi begins to distil" in done.stderr
        assert not list(tmp_path.rglob("*.pt"))
