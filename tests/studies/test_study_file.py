"""Study files: those that come with the program, and what is refused in one's own before anything is trained."""

from __future__ import annotations

from pathlib import Path

import pytest

from mptctl.errors import UsageError
from mptctl.names import METHOD_NAMES
from mptctl.recipe import load_recipe, preset_names
from mptctl.studies.quickstart import STUDY
from mptctl.studies.study_file import load_study, study_names
from mptctl.studies.study_plan import plan_study
from tests.common import ROOT

OLDS = "old_models: [{name: ce}, {name: ls, set: {criterion.name: ls}, seeds: [1]}]\n"
HEAD = "description: x\nsplit: {source: digits}\nrecipe: digits\n"


def write(folder: Path, text: str) -> str:
    path = folder / "own.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_papers_studies_are_there_and_their_descriptions_come_first() -> None:
    wanted = {
        "demo", "cifar100-r18", "imagenet-r18", "cifar100-r18-r50", "imagenet-r18-r50", "imagenet-ablation",
        "cifar100-vit", "cifar10-embedding", "cifar100-k", "tiny-imagenet-100", "cifar10", "pct-own",
    }  # fmt: skip
    assert wanted <= set(study_names())
    for name in study_names():
        text = (ROOT / "configs" / "studies" / f"{name}.yaml").read_text(encoding="utf-8")
        assert text.startswith("description: "), name


def test_a_study_that_is_called_as_a_preset_is_of_that_preset() -> None:
    shared = set(study_names()) & set(preset_names())
    assert shared >= {"cifar10", "cifar10-embedding", "cifar100-vit"}
    for name in shared:
        assert load_study(name).file.recipe == name


def test_the_demo_trains_what_the_quickstart_trains() -> None:
    assert STUDY == "demo"
    planned = plan_study(load_study(STUDY), [7])
    assert [(run.name, run.method, run.teachers, run.recipe.runtime.seed) for run in planned] == [
        ("old", "no-treatment", (), 2007),
        ("ref", "no-treatment", (), 1007),
        ("no-treatment", "no-treatment", ("7/old",), 7),
        ("mpt-kl", "mpt-kl", ("7/old", "7/ref"), 7),
    ]


def test_the_first_table_has_every_method_and_an_ensemble_of_eight() -> None:
    for name in ("cifar100-r18", "imagenet-r18"):
        study = load_study(name)
        assert {update.method for update in study.file.updates} == set(METHOD_NAMES)
        assert study.file.ensemble == 8
        assert {u.method for u in study.file.updates if u.ref == "ensemble"} == {"elodi", "elodi-topk"}


def test_a_larger_network_replaces_a_smaller_one() -> None:
    study = load_study("imagenet-r18-r50")
    assert study.old["old"].model.arch == "resnet18"
    assert study.new.model.arch == "resnet50"
    assert {recipe.model.arch for recipe in study.updates.values()} == {"resnet50"}


def test_settings_of_an_update_win_over_those_of_the_study(tmp_path: Path) -> None:
    text = HEAD + (
        "set: {optim.epochs: 3, optim: {lr: 0.2}}\n"
        "new: {set: {optim.epochs: 4}}\n"
        "updates: [mpt-kl, {name: other, method: mpt-lm, set: {optim: {epochs: 5}, method.k: 2}}]\n"
    )
    study = load_study(write(tmp_path, text))
    assert [recipe.optim.epochs for recipe in (study.old["old"], study.new)] == [3, 4]
    assert {name: recipe.optim.epochs for name, recipe in study.updates.items()} == {"mpt-kl": 4, "other": 5}
    assert {recipe.optim.lr for recipe in (study.old["old"], *study.updates.values())} == {0.2}
    assert (study.updates["other"].method.name, study.updates["other"].method.k) == ("mpt-lm", 2.0)


def test_all_paths_of_a_study_are_relative_to_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, elsewhere = tmp_path / "study", tmp_path / "elsewhere"
    for place, epochs in ((folder, 9), (elsewhere, 8)):
        place.mkdir()
        (place / "mine.yaml").write_text(f"optim: {{epochs: {epochs}}}\n", encoding="utf-8")
        (place / "other.yaml").write_text(f"optim: {{epochs: {epochs}}}\n", encoding="utf-8")
    (folder / "other.yaml").unlink()
    monkeypatch.chdir(elsewhere)
    split = "split: {source: table.csv, data_root: pictures, old_classes: old.txt, metadata: /meta.parquet}"
    text = f"description: x\n{split}\nrecipe: RECIPE\nupdates: [mpt-kl]\n"
    study = load_study(write(folder, text.replace("RECIPE", "mine.yaml")))
    assert study.old["old"].optim.epochs == 9
    assert study.file.split.source == str(folder / "table.csv")
    assert study.file.split.data_root == str(folder / "pictures")
    assert study.file.split.old_classes == str(folder / "old.txt")
    assert study.file.split.metadata == "/meta.parquet"
    with pytest.raises(UsageError, match=r"other\.yaml"):
        load_study(write(folder, text.replace("RECIPE", "other.yaml")))


UPDATE = "updates: [{method: mpt-kl, "
WRONG = [
    ("updates: [mpt-kll]", "updates.0..method: no such value: 'mpt-kll'; did you mean mpt-kl?"),
    ("updats: [mpt-kl]", "unknown key updats; did you mean updates?"),
    (UPDATE + "sett: {}}]", "unknown key updates.0..sett; did you mean set?"),
    (UPDATE + "set: {method.kk: 1}}]", "unknown key method.kk; did you mean method.k?"),
    (UPDATE + "set: {optim.lr: -1}}]", "optim.lr"),
    ("updates: [mpt-kl]\nset: {runtime: {seed: 3}}", "runtime.seed: is not set so; write seeds"),
    (UPDATE + "set: {method.name: elodi}}]", "write it as method"),
    ("updates: [mpt-kl, {method: mpt-kl, set: {method.k: 1}}]", "mpt-kl stands there twice"),
    (UPDATE + "name: old}]", "names no update"),
    (UPDATE + "name: a/b}]", "names no update"),
    (UPDATE + "name: wandb}]", "'wandb' names no update"),
    (UPDATE + "name: mlflow-files}]", "'mlflow-files' names no update"),
    (UPDATE + "name: split.json}]", "'split.json' names no update"),
    (UPDATE + "init: new}]", "init"),
    (
        UPDATE + "init: old, set: {method: {init: ref}}}]",
        "mpt-kl: set: method.init: stands there as init: too",
    ),
    ("updates: [{method: elodi, ref: ensemble}]", "say ensemble: 8"),
    ("updates: [elodi]\nensemble: 2", "no update has ref: ensemble"),
    ("updates: [mpt-kl]\nseeds: [1, 1]", "seeds: 1"),
    ("updates: []", "updates: there is none"),
    (UPDATE + "seeds: [4]}]\nseeds: [1, 2]", "mpt-kl: seeds: .4.: none of the study's"),
    (
        "old_models: [{name: ce}, {name: ls, seeds: [8]}]\nupdates: []",
        r"old_models: ls: seeds: \[8\]: none of the study's, which are \[1\]",
    ),
    (OLDS + "updates: [mpt-kl]", "old_models: several are compared with each other, without updates"),
    (UPDATE + "old: ce}]", "updates.0..*old"),
    (OLDS + UPDATE + "name: old-ls}]", "nothing that begins with old-"),
    ("old_models: [{name: a}, {name: a}]\nupdates: []", "old_models: a stands there twice"),
    ("old_models: [{name: a/b}]\nupdates: []", "names no old model"),
    ("old_models: [{nam: a}]\nupdates: []", "unknown key old_models.0..nam; did you mean name?"),
    ("old_models: [{name: ls, set: {criterion.name: lss}}]\nupdates: []", "old model ls: .*criterion.name"),
    ("", "updates: there is none"),
]
WRONG_HEADS = [
    (HEAD.replace("source: digits", "source: digts"), "did you mean digits?"),
    (HEAD.replace("recipe: digits", "recipe: digts"), "did you mean digits?"),
    (
        HEAD.replace("digits}", "digits, old_fraction: 0.3, old_classes: old.txt}"),
        "both say which classes are old; leave one of them out",
    ),
]
NO_STUDY = [("[1]", "must be a mapping"), ("split: [", "own.yaml")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((HEAD + text, said) for text, said in WRONG),
        *((head + "updates: [mpt-kl]\n", said) for head, said in WRONG_HEADS),
        *NO_STUDY,
    ],
)
def test_what_is_not_valid_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_study(write(tmp_path, text))


def test_an_update_begins_with_the_weights_that_its_row_names(tmp_path: Path) -> None:
    text = HEAD + (
        "updates:\n"
        "  - {name: plain-old, method: no-treatment, init: old, set: {method.k: 2}}\n"
        "  - {name: plain-ref, method: no-treatment, init: ref}\n"
        "  - {name: set-old, method: pct-kl, set: {method.init: old}}\n"
        "  - no-treatment\n"
    )
    study = load_study(write(tmp_path, text))
    found = {name: (recipe.method.name, recipe.method.init) for name, recipe in study.updates.items()}
    assert found == {
        "plain-old": ("no-treatment", "old"),
        "plain-ref": ("no-treatment", "ref"),
        "set-old": ("pct-kl", "old"),
        "no-treatment": ("no-treatment", "fresh"),
    }
    assert study.updates["plain-old"].method.k == 2
    teachers = {run.name: run.teachers for run in plan_study(study, [1]) if run.is_update}
    assert teachers["plain-old"] == ("1/old",)
    assert teachers["plain-ref"] == ("1/old", "1/ref")


def test_old_models_differ_in_what_is_set_for_them_alone(tmp_path: Path) -> None:
    study = load_study(write(tmp_path, HEAD + OLDS))
    assert {name: recipe.criterion.name for name, recipe in study.old.items()} == {
        "old-ce": "ce",
        "old-ls": "ls",
    }
    assert study.new.criterion.name == "ce"


@pytest.mark.nightly  # it reads two hundred recipes
def test_kept_results_are_runs_of_the_studies_as_they_are_now() -> None:
    compared = 0
    for name in set(study_names()) & {path.name for path in (ROOT / "results").iterdir()}:
        study = load_study(name)
        for run in plan_study(study, study.file.seeds):
            kept = ROOT / "results" / name / run.key / "recipe.yaml"
            if kept.is_file():
                recipe = load_recipe(str(kept), of_run=True)
                assert (recipe.optim, recipe.method) == (run.recipe.optim, run.recipe.method), run.key
                assert (recipe.model, recipe.criterion) == (run.recipe.model, run.recipe.criterion), run.key
                assert recipe.runtime.seed == run.recipe.runtime.seed, run.key
                compared += 1
    assert compared > 200
