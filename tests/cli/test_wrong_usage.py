"""What the command line says of flags, verbs, methods, keys and runs that are not there."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.recipe import validate_criterion, validate_method
from tests.common import CommandLine, command, environment

LINES = [
    ("train-mpt --epochs 3", "no such flag: --epochs; did you mean --set optim.epochs=3? mptctl train-mpt --help"),
    ("train-old --threads 2", "did you mean --set data.threads=2 or --set runtime.threads=2?"),
    ("train-old --resum", "did you mean --resume?"),
    ("evaluate a b --epochs 3", "no such flag: --epochs; mptctl evaluate --help lists what there is"),
    ("split digits --zzzz", "no such flag: --zzzz; mptctl split --help lists what there is"),
    ("bench lodaer", "No such command 'lodaer'. Did you mean 'loader'? mptctl bench --help"),
    ("trian-old", "No such command 'trian-old'. Did you mean 'train-old'? mptctl --help"),
    ("train-baseline mpt-nobais --run-root ROOT", "no such method: mpt-nobais; did you mean mpt-"),
    ("train-baseline pct-kl --k 2 --run-root ROOT", "--k 2: pct-kl has no k"),
    ("train-mpt --k -1 --run-root ROOT", "method.k: must be greater than or equal to 0, got -1"),
    ("train-old --set criterion.name=mlbs --run-root ROOT", "did you mean mbls"),
    ("train-mpt --no-ref --ref ref --run-root ROOT", "--no-ref: leaves out"),
    ("train-old --set data.epochs=1 --run-root ROOT", "unknown key data.epochs; did you mean optim.epochs?"),
    ("train-old --set optim.schedule=cosin --run-root ROOT", "no such value: 'cosin'; did you mean cosine?"),
    ("train-mpt --distance xx --run-root ROOT", "--distance: 'xx' is not one of 'kl', 'lm'; mptctl"),
    ("split digitz", "nor a place; did you mean digits?"),
    ("evaluate a b --max-nfr 200", "--max-nfr '200': must be less than or equal to 100; mptctl evaluate --help"),
    ("evaluate a b --max-nfr 2 --max-nfr=200", "--max-nfr '200': must be less than or equal to 100; "),
    ("train-mpt --epochs --resume", "did you mean --set optim.epochs=VALUE?"),
    ("evaluate a b --gate BROKEN", "broken.yaml: line 3, column 1: while parsing a flow node; expected the node "
     "content, but found the end"),
    ("evaluate a b --class-map BROKEN", "broken.yaml: line 3, column 1: while parsing a flow node; "),
    ("train-mpt --recipe mpt-kl --run-root ROOT", "recipe mpt-kl: is a method, which a command or method.name names"),
    ("train-mpt --name '' --run-root ROOT", "--name '': is empty; give a value, as mptctl train-mpt --help says"),
    ("train-mpt --name ' ' --run-root ROOT", "--name ' ': names no folder below the run root"),
    ("train-mpt --old= --run-root ROOT", "--old=: is empty; give a value, as mptctl train-mpt --help says"),
    ("train-mpt --ref a --ref '' --run-root ROOT", "--ref '': is empty; give a value"),
    ("runs --run-root ''", "--run-root '': is empty; give a value, as mptctl runs --help says"),
    ("evaluate '' b", "evaluate '': is empty; give a value, as mptctl evaluate --help says"),
    ("evaluate a b --report ''", "--report '': is empty"),
    ("train-old --recipe BROKEN --run-root ROOT", "line 3, column 1: while parsing a flow node; expected"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "said"), LINES)
def test_what_was_meant_is_named_in_one_line(
    line: str, said: str, mptctl: CommandLine, digits_root: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("optim:\n  lr: [\n")
    places = {"ROOT": str(digits_root), "BROKEN": str(broken)}
    done = mptctl(*(places.get(word, word) for word in shlex.split(line)))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert said in done.stderr
    for internal in ("Value error", "[Errno", "<unicode string>", "Input should"):
        assert internal not in done.stderr


def test_a_setting_that_a_method_does_not_use_is_said(digits_root: Path, mptctl: CommandLine) -> None:
    done = mptctl(
        "train-old", "--set", "method.k=2", "--dry-run", "--run-root", digits_root, "--name", "other"
    )
    assert done.returncode == 0
    assert "--set method.k: has no effect, since no-treatment has no k\n" in done.stderr


def test_a_method_and_a_criterion_are_never_called_a_recipe() -> None:
    for build, what in ((validate_method, "method mpt-kl"), (validate_criterion, "criterion fl")):
        with pytest.raises(UsageError) as error:
            build({"name": what.split()[1], "gamme": 3})
        assert str(error.value).startswith(f"{what}: unknown key ")


def test_the_program_is_called_by_its_name_however_it_was_started() -> None:
    words = command("train-mpt", "--epochs", "3")
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert done.stderr == (
        "mptctl: no such flag: --epochs; did you mean --set optim.epochs=3? mptctl train-mpt --help lists what there "
        "is\n"
    )


def test_a_missing_run_says_what_makes_it_and_which_are_there(digits: Split, mptctl: CommandLine) -> None:
    root = digits.run_root
    (root / "mine").mkdir()
    (root / "mine" / "best.pt").touch()
    for name, verb in [
        ("old", "make it with mptctl train-old; "),
        ("mpt-lm", "make it with mptctl train-mpt --distance lm; "),
        ("pct-kl", "make it with mptctl train-baseline pct-kl; "),
        ("other", ""),
    ]:
        done = mptctl("evaluate", name, "mine", "--run-root", root)
        assert done.returncode == 5
        assert f"of that name; {verb}runs there: mine\n" in done.stderr
    done = mptctl("evaluate", "mime", "mine", "--run-root", root)
    assert done.stderr.endswith("runs there: mine; did you mean mine?\n")
    done = mptctl("compare", "mime", "--run-root", root)
    assert done.stderr.endswith("mine; did you mean mine?\n")
    (root / "old").mkdir()
    (root / "old" / "last.pt").touch()
    done = mptctl("evaluate", "old", "mine", "--run-root", root)
    assert "old: its run is not finished; go on with --resume" in done.stderr
