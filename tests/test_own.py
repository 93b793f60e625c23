"""Methods, criteria and networks of one's own: the page's examples, found in three ways, and what is refused."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import BaseModel, field_validator

import mptctl
from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.methods import build_criterion, build_method
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.run_folder import RunDir
from mptctl.names import METHOD_NAMES, PLUGINS, Role
from mptctl.recipe import own
from mptctl.recipe.own import load_plugins
from mptctl.training.request import RunRequest
from tests.common import (
    ROOT,
    CommandLine,
    Train,
    assert_same_run,
    digits_with_teachers,
    short_recipe,
    train_until_killed,
)

PAGE = (ROOT / "docs" / "own.md").read_text(encoding="utf-8")
METHOD, CRITERION, NETWORK = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SHORT = [
    word
    for key in ("optim.max_steps=4", "runtime.device=cpu", "runtime.threads=1")
    for word in ("--set", key)
]
IMPORTS = "import mptctl\nfrom torch.nn.functional import cross_entropy\n"


@pytest.fixture(autouse=True)
def nothing_stays_registered() -> Iterator[None]:
    """Every test begins without a plugin."""
    forget()
    yield
    forget()


def forget() -> None:
    os.environ.pop(PLUGINS, None)
    own._OWN.clear()
    own._RUN.clear()
    own._offered.cache_clear()


@pytest.fixture
def muscle(tmp_path: Path) -> Path:
    file = tmp_path / "muscle.py"
    file.write_text(METHOD)
    return file


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """A split of the digits with the old model and the reference."""
    return digits_with_teachers(tmp_path_factory.mktemp("taught"), val_fraction=0.2, epochs=1)


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_the_terms_of_ours_are_a_method_of_ones_own_too(name: str) -> None:
    ours = build_method(name, num_old=2, elodi_start_epoch=0)

    @mptctl.method("again", teachers=ours.teachers)
    def again(logits, target, old_logits, ref_logits, settings):  # type: ignore[no-untyped-def]
        return ours.terms(logits, target, old_logits, ref_logits, ours.settings)

    chance = torch.Generator().manual_seed(0)
    logits, old, ref = (torch.randn(6, classes, generator=chance) for classes in (3, 2, 3))
    target = torch.tensor([0, 1, 2, -100, 1, 0])
    (terms, grad), (its_terms, its_grad) = (
        method.value_and_grad(logits, target, old, ref) for method in (ours, build_method("again", num_old=2))
    )
    assert list(its_terms) == list(terms)
    torch.testing.assert_close(its_terms, terms)
    torch.testing.assert_close(its_grad, grad)


def test_the_example_is_short_and_computes_what_its_page_says(muscle: Path) -> None:
    """By hand: a right row learns from the reference, a wrong one from the old model; an ignored row counts nothing."""
    assert len(METHOD.splitlines()) <= 25
    load_plugins([str(muscle)])
    method = build_method("muscle", num_old=2, tau=1.0, weight=0.5)
    assert method.teachers == frozenset(Role)
    third = torch.tensor([3.0, 1.0]).log()  # probabilities 3/4 and 1/4
    logits = torch.stack(
        [torch.tensor([1.0, 0.0, -50.0]), torch.tensor([0.0, 0.0, -50.0]), torch.full((3,), torch.nan)]
    )
    old = torch.stack([third, third, third])
    ref = torch.tensor([[1.0, 0.0, -50.0]]).repeat(3, 1)
    target = torch.tensor([0, 1, -100])
    terms, grad = method.value_and_grad(logits, target, old, ref)
    # Row 0 is right, and equals the reference: distance 0. Row 1 says class 0: 3/4 log(3/2) + 1/4 log(1/2).
    assert float(terms["distilled"]) == pytest.approx(0.5 * 0.130812 / 2, rel=1e-4)
    assert float(terms["ce"]) == pytest.approx((0.313262 + 0.693147) / 2, rel=1e-5)
    assert float(terms["loss"]) == pytest.approx(float(terms["ce"] + terms["distilled"]), rel=1e-6)
    assert int(terms["correct"]) == 1
    assert not grad[2].any()
    halves = [
        method.value_and_grad(logits[i : i + 1], target[i : i + 1], old[:1], ref[:1], 2.0)[1] for i in (0, 1)
    ]
    torch.testing.assert_close(torch.cat(halves), grad[:2])  # the same normaliser and rows one by one


def test_it_trains_and_goes_on_bit_by_bit_and_is_read_without_its_file(
    muscle: Path, taught: Split, mptctl: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root = taught.run_root
    where = ("--run-root", root)
    keys = (*SHORT, "--set", "runtime.checkpoint_every_steps=1", "--set", "method.settings.tau=3")
    done = mptctl(
        "train-baseline", "muscle", "--plugin", muscle, *where, *keys, "--name", "whole", "--cache-teachers"
    )
    assert done.returncode == 0, done.stderr
    recipe = load_checkpoint(root / "whole" / "best.pt").meta.recipe
    assert recipe.method.settings == {"weight": 1.0, "tau": 3.0}
    teachers = root / "old" / "best.pt", (root / "ref" / "best.pt",)
    train_until_killed(RunRequest(recipe, taught, root / "killed", *teachers), "checkpoint", 2)
    words = ("train-baseline", "muscle", *where, "--name", "killed", "--resume")
    forget()
    refused = mptctl(*words)
    assert refused.returncode == 2
    assert "no such method: muscle" in refused.stderr
    assert "--plugin FILE.py" in refused.stderr
    assert mptctl(*words, "--plugin", muscle).returncode == 0
    assert_same_run(RunDir(root / "killed"), RunDir(root / "whole"))

    (kept,) = RunDir(root / "whole").read_own()
    assert (root / "whole" / "plugins" / kept.file).read_text() == METHOD
    assert (kept.kind, kept.name, kept.teachers) == ("method", "muscle", ["old", "ref"])
    muscle.write_text(f"{METHOD}\n# another text\n")
    forget()
    longer = mptctl(*words, "--plugin", muscle, "--dry-run")
    assert "method muscle: its file has changed since this run began" in longer.stdout
    forget()  # what only reads runs needs no plugin
    for reading in (
        ("evaluate", root / "old", root / "whole"),
        ("compare", root / "whole", "--json"),
        ("export", root / "whole", "--format", "safetensors"),
        ("runs",),
    ):
        read = mptctl(*reading, *where)
        assert read.returncode == 0, read.stderr
    assert (
        json.loads(mptctl("compare", root / "whole", "--json", *where).stdout)["rows"][0]["method"]
        == "muscle"
    )


@pytest.mark.slow
def test_a_study_of_three_methods_and_two_seeds_on_two_workers(
    muscle: Path, mptctl: CommandLine, tmp_path: Path
) -> None:
    study, root = tmp_path / "three.yaml", tmp_path / "three"
    study.write_text(
        "description: three methods\nsplit: {source: digits}\nrecipe: digits\nseeds: [1, 2]\n"
        "set: {optim.max_steps: 3, runtime.device: cpu}\n"
        "updates: [no-treatment, mpt-kl, {method: muscle, set: {method.settings.weight: 0.5}}]\n"
    )
    words = ("study", study, "--run-root", root)
    refused = mptctl(*words, "--dry-run")
    assert refused.returncode == 2
    assert "no such value: 'muscle'" in refused.stderr
    done = mptctl(*words, "--plugin", muscle, "--parallel", "2", "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["comparison"]["rows"]}
    assert set(rows) >= {"no-treatment", "mpt-kl", "muscle"}
    assert rows["muscle"]["seeds"] == [1, 2]
    assert rows["muscle"]["cost_parts"]["asked"] > 0
    forget()
    # Another text for one of its seeds is a remark.
    copy = next((root / "1" / "muscle" / "plugins").iterdir())
    copy.with_name("muscle-00000000.py").write_text("other")
    compared = mptctl("compare", root, "--json")
    assert compared.returncode == 0, compared.stderr
    (note,) = (note for note in json.loads(compared.stdout)["notes"] if "different texts" in note)
    assert note.startswith("muscle: was trained by different texts of muscle.py: muscle-00000000.py")


def test_a_package_with_an_entry_point_needs_no_flag(
    taught: Split, mptctl: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flips_by_me.py").write_text(METHOD)
    info = tmp_path / "flips_by_me-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: flips-by-me\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[mptctl.methods]\nmuscle = flips_by_me:muscle\ngone = flips_by_me:gone\nmpt-kl = flips_by_me:muscle\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert "or muscle" in mptctl("train-baseline", "--help").stdout.replace("gone or", "or")
    assert "flips_by_me" not in sys.modules
    done = mptctl("train-baseline", "muscle", "--run-root", taught.run_root, *SHORT, "--name", "packaged")
    assert done.returncode == 0, done.stderr
    monkeypatch.delitem(sys.modules, "flips_by_me")
    kept = RunDir(taught.run_root / "packaged").read_own()
    assert [one.file.rpartition("-")[0] for one in kept] == ["flips_by_me"]
    broken = mptctl("train-baseline", "gone", "--run-root", taught.run_root)
    assert broken.returncode == 2
    assert "entry point gone (flips_by_me:gone) of mptctl.methods: AttributeError" in broken.stderr


def function(body: str, name: str = "bad", arguments: str = "z, y, old, ref, settings") -> str:
    """The file of a method."""
    return f"{IMPORTS}\n@mptctl.method({name!r})\ndef bad({arguments}):\n    {body}\n"


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
    done = mptctl(*words, "--resume")
    assert done.returncode == 0, done.stderr


def test_one_file_is_run_once_by_whichever_path_and_prints_to_standard_error(
    muscle: Path, mptctl: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran.txt"
    muscle.write_text(f"print('loud')\nwith open({str(ran)!r}, 'a') as file: file.write('once')\n{METHOD}")
    (tmp_path / "link.py").symlink_to(muscle)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(PLUGINS, os.pathsep.join(["muscle.py", str(muscle)]))
    paths = [word for path in ("below/../muscle.py", "link.py", "muscle.py") for word in ("--plugin", path)]
    listed = mptctl("recipes", *paths, "--json")
    assert json.loads(listed.stdout)["recipes"][-1]["name"] == "muscle"
    assert ran.read_text() == "once"
    assert os.environ[PLUGINS] == str(muscle)  # as workers in other folders find it


def test_a_relative_path_of_the_variable_is_found_by_workers_elsewhere(
    muscle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(muscle.parent)
    monkeypatch.setenv(PLUGINS, "muscle.py")
    assert own.find_own("method", "muscle") is not None
    assert os.environ[PLUGINS] == str(muscle)


def test_a_plugin_may_call_mptctl_while_it_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "calls.py"
    file.write_text(f"import mptctl\nmptctl.build_method('mpt-kl', num_old=5)\n{METHOD}")
    monkeypatch.setenv(PLUGINS, str(file))
    assert own.find_own("method", "muscle") is not None


@pytest.mark.parametrize("name", ["resnet18", "digits-net"])
def test_a_network_does_not_take_a_name_of_ours(
    name: str, taught: Split, mptctl: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "net.py").write_text(NETWORK.replace("two-layers", name))
    words = ("train-old", "--plugin", tmp_path / "net.py", "--run-root", taught.run_root, "--name", "named")
    done = mptctl(*words, *SHORT, "--set", f"model.arch={name}", "--dry-run")
    assert done.returncode == 2
    assert f"network {name}: the name is taken" in done.stderr


def test_a_cell_of_a_notebook_may_be_run_again() -> None:
    for cell in ("<cell 1>", "<cell 2>"):
        exec(compile(function("return {}"), cell, "exec"), {"__name__": cell})
    found = own.find_own("method", "bad")
    assert found is not None
    assert found.function.__code__.co_filename == "<cell 2>"


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
    overrides = [word for key in keys for word in ("--set", key)]
    done = mptctl(
        "train-baseline", "muscle", "--plugin", muscle, "--run-root", taught.run_root, *overrides,
        "--print-recipe",
    )  # fmt: skip
    assert done.returncode == 2
    assert message in done.stderr


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
    with pytest.raises(UsageError, match=r"method\.settings: line \d+: KeyError: 4; in .*test_own\.py"):
        build_method("odd", num_old=2, n=4)


def test_a_misspelt_name_is_told_the_nearest(muscle: Path, taught: Split, mptctl: CommandLine) -> None:
    done = mptctl("train-baseline", "muscl", "--plugin", muscle, "--run-root", taught.run_root)
    assert done.stderr.endswith("no such method: muscl; did you mean muscle?\n")


def test_an_own_criterion_is_the_base_term_of_our_methods(tmp_path: Path, run: Train) -> None:
    (tmp_path / "huber.py").write_text(CRITERION)
    load_plugins([str(tmp_path / "huber.py")])
    # Of p = (1/2, 1/2) each class is off by 1/2: 2 * (1/2)^2 / 2.
    loss = build_criterion("huber", delta=2.0)(torch.zeros(2, 2), torch.tensor([1, -100]))
    assert loss.tolist() == [0.25, 0.0]
    recipe = short_recipe("criterion.name=huber", "criterion.settings.delta=2", "optim.max_steps=2")
    assert recipe.criterion.settings == {"delta": 2.0}
    result, _ = run(recipe)
    assert [one.kind for one in result.run.read_own()] == ["criterion"]


def test_an_own_network_has_a_head_that_all_find(
    tmp_path: Path, run: Train, mptctl: CommandLine, digits: Split
) -> None:
    (tmp_path / "net.py").write_text(NETWORK)
    load_plugins([str(tmp_path / "net.py")])
    keys = ("model.arch=two-layers", "model.settings.width=4", "model.embedding_dim=3", "model.head=cosine")
    result, _ = run(short_recipe(*keys, "optim.max_steps=2"), "own")
    weights = load_checkpoint(result.run.best).model
    assert weights["features.0.weight"].shape == (4, 3, 3, 3)
    assert weights["head.0.weight"].shape == (3, 4)  # the embedding
    assert weights["head.1.weight"].shape == (10, 3)  # the classifier
    where = ("--run-root", digits.run_root)
    file = tmp_path / "own.safetensors"
    done = mptctl("export", "own", *where, "--format", "safetensors", "--out", file)
    assert done.returncode == 0, done.stderr
    assert mptctl("evaluate", "own", file, *where).returncode == 0
    torch.save(weights, tmp_path / "weights.pt")
    names = tmp_path / "names.txt"
    names.write_text("\n".join(map(str, range(10))))
    imported = (
        "import", tmp_path / "weights.pt", "--arch", "two-layers", "--class-names", names, "--name",
        "brought",
    )  # fmt: skip
    done = mptctl(*imported, *where, "--set", "model.settings.width=4", "--set", "model.head=cosine")
    assert done.returncode == 0, done.stderr
    forget()
    refused = mptctl("evaluate", "own", *where)
    assert refused.returncode != 0
    assert "two-layers" in refused.stderr
    assert f"give its file with {PLUGINS}=FILE.py" in refused.stderr  # evaluate has no --plugin


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


def test_own_parts_are_listed_with_what_can_be_set(muscle: Path, mptctl: CommandLine) -> None:
    blank = muscle.with_name("blank.py")
    blank.write_text(function('""" """'))
    listed = json.loads(mptctl("recipes", "--plugin", muscle, "--json").stdout)["recipes"][-1]
    assert (listed["name"], listed["kind"]) == ("muscle", "method")
    assert (
        listed["description"] == "Learn from the old model where the student is wrong, else from the new one."
    )
    shown = mptctl("recipes", "muscle").stdout
    assert "temperature" in shown
    assert mptctl("recipes", "--plugin", blank, "--json").returncode == 0
    assert "default: 2.0" in shown
