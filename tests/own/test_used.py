"""Methods, criteria and networks of one's own: the page's examples, found in three ways, and trained."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import torch

import mptctl
from mptctl.data.split import Split
from mptctl.methods import build_criterion, build_method
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.run_folder import RunDir
from mptctl.names import METHOD_NAMES, PLUGINS, Role
from mptctl.recipe import own
from mptctl.recipe.own import load_plugins
from mptctl.training.request import RunRequest
from tests.common import (
    CommandLine,
    Train,
    assert_same_run,
    short_recipe,
    train_until_killed,
)
from tests.own.conftest import CRITERION, METHOD, NETWORK, SHORT, forget, function


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
    mptctl.must(
        "train-baseline", "muscle", "--plugin", muscle, *where, *keys, "--name", "whole", "--cache-teachers"
    )
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
    mptctl.must(*words, "--plugin", muscle)
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
        mptctl.must(*reading, *where)
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
    done = mptctl.must(*words, "--plugin", muscle, "--parallel", "2", "--json")
    rows = {row["name"]: row for row in json.loads(done.stdout)["comparison"]["rows"]}
    assert set(rows) >= {"no-treatment", "mpt-kl", "muscle"}
    assert rows["muscle"]["seeds"] == [1, 2]
    assert rows["muscle"]["cost_parts"]["asked"] > 0
    forget()
    # Another text for one of its seeds is a remark.
    copy = next((root / "1" / "muscle" / "plugins").iterdir())
    copy.with_name("muscle-00000000.py").write_text("other")
    compared = mptctl.must("compare", root, "--json")
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
    mptctl.must("train-baseline", "muscle", "--run-root", taught.run_root, *SHORT, "--name", "packaged")
    monkeypatch.delitem(sys.modules, "flips_by_me")
    kept = RunDir(taught.run_root / "packaged").read_own()
    assert [one.file.rpartition("-")[0] for one in kept] == ["flips_by_me"]
    broken = mptctl("train-baseline", "gone", "--run-root", taught.run_root)
    assert broken.returncode == 2
    assert "entry point gone (flips_by_me:gone) of mptctl.methods: AttributeError" in broken.stderr


def test_one_file_is_run_once_by_whichever_path_and_prints_to_standard_error(
    muscle: Path, mptctl: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran.txt"
    calls = "import mptctl\nmptctl.build_method('mpt-kl', num_old=5)"  # while it is run
    writes = f"with open({str(ran)!r}, 'a') as file: file.write('once')"
    muscle.write_text(f"print('loud')\n{writes}\n{calls}\n{METHOD}")
    (tmp_path / "link.py").symlink_to(muscle)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(PLUGINS, "muscle.py")
    assert own.find_own("method", "muscle") is not None
    assert os.environ[PLUGINS] == str(muscle)  # as workers in other folders find it
    monkeypatch.setenv(PLUGINS, os.pathsep.join(["muscle.py", str(muscle)]))
    paths = [word for path in ("below/../muscle.py", "link.py", "muscle.py") for word in ("--plugin", path)]
    listed = mptctl("recipes", *paths, "--json")
    assert json.loads(listed.stdout)["recipes"][-1]["name"] == "muscle"
    assert ran.read_text() == "once"
    assert os.environ[PLUGINS] == str(muscle)


def test_a_cell_of_a_notebook_may_be_run_again() -> None:
    for cell in ("<cell 1>", "<cell 2>"):
        exec(compile(function("return {}"), cell, "exec"), {"__name__": cell})
    found = own.find_own("method", "bad")
    assert found is not None
    assert found.function.__code__.co_filename == "<cell 2>"


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
    mptctl.must("export", "own", *where, "--format", "safetensors", "--out", file)
    mptctl.must("evaluate", "own", file, *where)
    torch.save(weights, tmp_path / "weights.pt")
    names = tmp_path / "names.txt"
    names.write_text("\n".join(map(str, range(10))))
    imported = (
        "import", tmp_path / "weights.pt", "--arch", "two-layers", "--class-names", names, "--name",
        "brought",
    )  # fmt: skip
    mptctl.must(*imported, *where, "--set", "model.settings.width=4", "--set", "model.head=cosine")
    forget()
    refused = mptctl("evaluate", "own", *where)
    assert refused.returncode != 0
    assert "two-layers" in refused.stderr
    assert f"give its file with {PLUGINS}=FILE.py" in refused.stderr  # evaluate has no --plugin


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
    mptctl.must("recipes", "--plugin", blank, "--json")
    assert "default: 2.0" in shown


def test_a_step_of_an_own_network_is_timed(tmp_path: Path, mptctl: CommandLine) -> None:
    file = tmp_path / "net.py"
    file.write_text(NETWORK)
    words = (
        "--set",
        "model.arch=two-layers",
        "--set",
        "model.settings.width=4",
        "--set",
        "optim.batch_size=4",
    )
    short = (
        "--classes",
        "10",
        "--rows",
        "ours",
        "--steps",
        "1",
        "--repeats",
        "1",
        "--device",
        "cpu",
        "--json",
    )
    done = mptctl("bench", "step", "--recipe", "digits", "--plugin", file, *words, *short)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["arch"] == "two-layers"
