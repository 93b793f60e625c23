"""`compare`, `study`, `tune`, `runs` and `recipes`: tables of what is there, what trains it, and refusals."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from mptctl.data.split import make_split
from mptctl.studies.answers import run_answers
from mptctl.studies.answers_file import no_answers, write_answers
from tests.acceptance.cases import Case, check, cut, written
from tests.common import CommandLine

UPDATES = "compare no-treatment mpt-kl"
TUNE = "tune --max-concurrent 1 --set runtime.device=cpu --set runtime.threads=1 --set optim.max_steps=4"
LAM = "--search method.lam=0.1..10:log"


def without_validation(place: Path) -> None:
    """Keep the runs' predictions alone, and of these none on the validation part."""
    for run in (place / "runs").glob("*/best.pt"):
        answers = run_answers(run.parent)
        run.unlink()
        write_answers(replace(answers, val=no_answers()))


def among_kept(place: Path) -> None:
    shutil.copytree(place / "runs", place / "kept/one/1")


def nothing_held_out(place: Path) -> None:
    make_split("digits", run_root=place / "runs", val_fraction=0.0, overwrite=True)


EARLIER = '{"sampler": "grid", "trials": [], "split_fingerprint": "0"}'
NO_RUN = (
    "description: x\nsplit: {source: digits}\nrecipe: digits\nupdates: []\nseeds: [1, 2]\n"
    "old_models: [{name: ce, seeds: [1]}]\n"
)
CASES = [
    Case(f"{UPDATES} --json"),
    Case(UPDATES, named="mpt-kl"),
    Case(f"{UPDATES} --part val --json"),
    Case(f"{UPDATES} --equal-error mpt-kl --json"),
    Case(f"{UPDATES} --old ref --json"),
    Case(f"{UPDATES} --csv t.csv --latex t.tex --markdown t.md", files=("t.csv", "t.tex", "t.md")),
    Case(f"{UPDATES} --report page.html", files=("page.html",)),
    Case("compare runs --json"),
    Case(f"{UPDATES} --part val --choose --json"),
    Case(f"{UPDATES} --part val --choose", named="Chosen: "),
    Case(f"{UPDATES} --choose", 2, "--part val"),
    Case(f"{UPDATES} --part test --choose", 2, "--part val"),
    Case(f"{UPDATES} --part val --choose --against mpt-kl", 2, "--against"),
    Case("compare mpt-kl --part val --choose", 2, "one row"),
    Case("compare old --part val --choose", 2, "old models"),
    Case(f"{UPDATES} --part val --choose", 4, "no validation sample", before=without_validation),
    Case("compare", 2, "STUDY_OR_RUNS"),
    Case(f"{UPDATES} --part train", 2, "--part"),
    Case(f"{UPDATES} --equal-error gone", 2, "gone"),
    Case(f"{UPDATES} --against gone", 2, "gone"),
    Case(f"{UPDATES} --csv runs/split.json", 2, "--csv"),
    Case(f"{UPDATES} --csv t --latex t", 2, "is in the way of --csv"),
    Case(f"{UPDATES} --csv runs/old/best.pt", 2, "is a file that mptctl keeps in"),
    Case("compare gone", 5, "gone: no such study or run"),
    Case("compare ref", 5, "records no old model; name it with --old RUN"),
    Case("compare old --old ref", 5, "is no update"),
    Case("compare old", named="ECE"),
    Case("compare empty", 5, "holds no run"),
    Case("compare kept", 5, "kept holds studies; name one of them: one", before=among_kept),
    Case("compare kept/one --old kept/one/1/gone", 5, "--old kept/one/1/gone", before=among_kept),
    Case(f"{UPDATES} --old gone", 5, "gone"),
    Case(UPDATES, 5, "runs/mpt-kl/best.pt", before=cut("runs/mpt-kl/best.pt", 900)),
    Case(f"{UPDATES} --csv file/t.csv", 7, "file"),
    Case("study study.yaml --run-root new --parallel 1 --dry-run --json"),
    Case("study demo --run-root new --dry-run --json"),
    Case("study costly.yaml --run-root new --dry-run --json"),
    Case("study costly.yaml --cost 1.5 --run-root new --dry-run", named="plain-longer"),
    Case("study costly.yaml --cost 1 --run-root new --dry-run", 2, "--cost 1"),
    Case("study costly.yaml --cost x --run-root new", 2, "--cost"),
    Case("study dmo", 2, "demo"),
    Case("study gone.yaml", 2, "gone.yaml"),
    Case("study wrong_study.yaml", 2, "mpt-kk"),
    Case("study study.yaml --seeds 1,1 --run-root new", 2, "--seeds"),
    Case("study study.yaml --seeds -1 --run-root new", 2, "--seeds"),
    Case("study study.yaml --parallel 0 --run-root new", 2, "--parallel"),
    Case("study cifar100-r18 --run-root new", 2, "--data-root"),
    Case("study study.yaml --run-root new --report runs/split.json", 2, "--report"),
    *(
        Case(
            f"study study.yaml --run-root {root}{dry}",
            code,
            said,
            before=lambda place: (place / "link").symlink_to("empty"),
        )
        for root, code, said in (
            ("file", 7, "cannot be written: Not a directory"),
            ("file/new", 7, "cannot be written: Not a directory"),
            ("link", 2, "is a link"),
        )
        for dry in ("", " --dry-run")
    ),
    *(
        Case(
            f"study none.yaml --seeds 2{dry}",
            2,
            "none: has no run of seed 2",
            before=written("none.yaml", NO_RUN),
        )
        for dry in ("", " --dry-run")
    ),
    Case(f"{TUNE} --k 0,2 --dry-run --json"),
    Case(
        f"{TUNE} --k 0,4 --distance kl,lm --dry-run",
        named="4 trials: mpt-kl-k0, mpt-kl-k4, mpt-lm-k0, mpt-lm-k4",
    ),
    Case(f"{TUNE} --dry-run", named="7 trials: mpt-kl-k0, mpt-kl-k0.5, mpt-kl-k1, "),
    Case(f"{TUNE} --sampler optuna --trials 30 --dry-run", named="30 trials, chosen as they go"),
    *(
        Case(f"{TUNE} {flags}{dry}", 2, said, before=written(f"runs/tune/{name}", text))
        for flags, said, name, text in (
            ("", "already holds a search; go on with", "trials.json", EARLIER),
            ("--name mpt-kl", "and no search of mptctl's", "notes", ""),
        )
        for dry in ("", " --dry-run")
    ),
    *(
        Case(
            f"{TUNE} --resume{dry}",
            2,
            "trials.json: cannot be read",
            before=written("runs/tune/trials.json", "{}"),
        )
        for dry in ("", " --dry-run")
    ),
    Case(
        "study study.yaml --run-root new --ray-address 127.0.0.1:1",
        2,
        "127.0.0.1:1: nobody answers there",
    ),
    Case(
        f"{TUNE} --overwrite --dry-run",
        named="7 trials",
        before=written("runs/tune/trials.json", EARLIER),
    ),
    Case(TUNE, 2, "tune never looks at the test set", before=nothing_held_out),
    Case(
        f"{TUNE} --ray-address 127.0.0.1:1",
        2,
        "127.0.0.1:1: nobody answers there",
    ),
    *(
        Case(f"tune {words} --dry-run", 2, said)
        for words, said in (
            (f"pct-k {LAM}", "no such method: pct-k; did you mean pct-kl?"),
            ("pct-kl", "name both, a method and what is searched of it"),
            (LAM, "name both, a method and what is searched of it"),
            (f"pct-kl {LAM} --sampler grid", "--sampler grid: needs values"),
            (f"pct-kl {LAM} --k 0,1", "--k, --distance: are for tune without METHOD"),
            ("pct-kl --search method.lam=1,2 --search method.lam=3", "--search: names a key twice"),
            ("pct-kl --search method.k=1,2", "--search method.k: pct-kl does not use it, and all trials"),
            ("pct-kl --search method.lam=-1,2", "method.lam: must be greater than or equal to 0"),
        )
    ),
    Case(f"{TUNE} --k 1,x", 2, "--k"),
    Case(f"{TUNE} --k 0..8 --sampler grid", 2, "--sampler grid"),
    Case(f"{TUNE} --sampler bayes", 2, "--sampler"),
    Case(
        f"{TUNE} --max-nfr 5 --max-er-increase 1", 2, "one is the limit and the other what it costs; give one"
    ),
    Case(f"{TUNE} --resume --overwrite", 2, "contradict"),
    Case(f"{TUNE} --trials 3", 2, "a grid has as many trials as its values"),
    Case(f"{TUNE} --gpus-per-trial 1.5", 2, "whole number"),
    Case(f"{TUNE} --set runtime.cache_limit_gb=0.00001", 2, "cache_limit_gb"),
    Case(f"{TUNE} --resume", 2, "nothing to resume"),
    Case(f"{TUNE} --max-er-increase 101", 2, "max-er-increase"),
    Case(f"{TUNE} --max-nfr 2 --asha", 2, "--max-nfr and --asha: it gives trials up by the flips"),
    Case(f"{TUNE} --max-nfr 2 --sampler optuna", 2, "--sampler optuna: it chooses trials by flips"),
    Case(
        f"{TUNE} --confidence 0.9", 2, "--confidence 0.9: says how sure a budget must be; give --max-nfr too"
    ),
    Case(f"{TUNE} --set method.max_nfr=2", 2, "method.max_nfr: moves k in every trial"),
    Case(
        f"{TUNE} --max-nfr 0", 2, "pictures of old classes cannot show it: without a single flip the bound is"
    ),
    Case(f"{TUNE} --set optim.lrr=1", 2, "optim.lrr"),
    Case(f"{TUNE} --run-root none", 2, "none"),
    Case(f"{TUNE} --old gone", 5, "gone"),
    Case(f"{TUNE}", 5, "runs/ref/best.pt", before=cut("runs/ref/best.pt", 900)),
    Case("runs --json"),
    Case("runs", named="mpt-kl"),
    Case("runs --run-root gone", 2, "gone"),
    Case("recipes --json"),
    Case("recipes digits", named="digits-net"),
    Case("recipes digts", 2, "digits"),
    Case("doctor --json"),
    Case("doctor", named="DALI"),
    *(
        Case(f"bench {words}", 2, said)
        for words, said in (
            ("loader --rows fast", "--rows fast: unknown; valid: resident"),
            ("kernel --device cpu", "bench kernel: cpu is no GPU; "),
            ("kernel --rows 128,many", "--rows: 'many' is not a number of at least 2"),
            ("kernel --classes 1", "--classes: '1' is not a number of at least 2"),
            ("kernel --dtypes float8", "--dtypes float8: unknown; did you mean float32?"),
            ("step --recipe digits --rows ours,studnet", "--rows studnet: unknown; did you mean student?"),
            ("step --recipe digits --rows ours,", "--rows '': unknown; valid: student, floor, floor-graph, "),
            ("step --recipe digits --precision fp16", "--precision fp16: unknown; did you mean bf16?"),
            ("step --recipe digits --clock wal", "--clock: 'wal' is not one of 'wall', 'cpu'"),
            ("step --recipe digits --set method.name=mpt-nodistill", "mpt-nodistill: has no teachers"),
        )
    ),
    Case("--version", named="mptctl"),
    Case("--help", named="evaluate"),
    Case("evalute old new", 2, "evaluate"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_command(case: Case, place: Path, mptctl: CommandLine) -> None:
    check(case, place, mptctl)


def test_a_damaged_run_is_listed_as_broken(place: Path, mptctl: CommandLine) -> None:
    states = {run["run"]: run["state"] for run in check(Case("runs --json"), place, mptctl)["runs"]}
    assert states == dict.fromkeys(("old", "ref", "no-treatment", "mpt-kl"), "finished")
    cut("runs/ref/best.pt", 900)(place)
    states = {run["run"]: run["state"] for run in check(Case("runs --json"), place, mptctl)["runs"]}
    assert states["ref"] == "broken"


def test_the_commands_of_a_choice_are_those_that_train_it(place: Path, mptctl: CommandLine) -> None:
    choice = check(Case(f"{UPDATES} --part val --choose --json"), place, mptctl)
    assert choice["chosen"] in ("no-treatment", "mpt-kl")
    *trainings, adjustment = (shlex.split(command)[1:] for command in choice["commands"])
    for words in trainings:
        done = mptctl(*words, "--print-recipe")
        assert done.returncode == 0, done.stderr
    method = yaml.safe_load(done.stdout)["method"]
    assert (method["name"], method["init"]) == (choice["chosen"], "fresh")
    assert mptctl(*adjustment, "--json").returncode == 0


@pytest.mark.nightly
def test_a_study_trains_names_what_failed_and_goes_on(place: Path, mptctl: CommandLine) -> None:
    text = (place / "study.yaml").read_text()
    failing = text.replace("mpt-kl]", "{method: mpt-kl, set: {optim.lr: 1.0e+30, optim.max_steps: 12}}]")
    (place / "failing.yaml").write_text(failing)
    check(
        Case(
            "study failing.yaml --run-root new --parallel 1 --json",
            1,
            "mpt-kl",
            ("new/1/no-treatment/best.pt",),
        ),
        place,
        mptctl,
    )
    trained = (place / "new/1/old/best.pt").stat().st_mtime_ns
    (place / "failing.yaml").write_text(text)
    printed = check(
        Case("study failing.yaml --run-root new --parallel 1 --json", files=("new/1/mpt-kl/best.pt",)),
        place,
        mptctl,
    )
    assert (place / "new/1/old/best.pt").stat().st_mtime_ns == trained
    table = check(Case("compare new --json"), place, mptctl)
    assert [row["name"] for row in table["rows"]] == ["no-treatment", "plain, bias taken off", "mpt-kl"]
    assert json.dumps(table["rows"]) in json.dumps(printed)


@pytest.mark.nightly
def test_a_search_writes_the_recipe_that_it_chose_or_none(place: Path, mptctl: CommandLine) -> None:
    line = f"{TUNE} --k 0,2 --max-er-increase 100 --json"
    printed = check(
        Case(line, files=("runs/tune/best.yaml", "runs/tune/trials.json", "runs/tune/tune.html")),
        place,
        mptctl,
    )
    assert len(printed["trials"]) == 2
    check(
        Case("train-mpt --recipe runs/tune/best.yaml --name chosen --json", files=("runs/chosen/best.pt",)),
        place,
        mptctl,
    )
    check(Case(line, 2, "runs/tune"), place, mptctl)
    check(
        Case(f"{TUNE} --k 0 --max-er-increase -100 --name none", 3, "no recipe was written", ("runs/none",)),
        place,
        mptctl,
    )
    assert not (place / "runs/none/best.yaml").exists()
