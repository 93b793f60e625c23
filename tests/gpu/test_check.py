"""`make gpu-check` itself, as far as it can be tried without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu import check


def test_every_test_file_for_a_gpu_is_run() -> None:
    files = {path.name for path in Path(__file__).parent.glob("test_*.py")}
    assert files - {Path(__file__).name} == set(check.TESTS)


def test_what_is_missing_is_named_and_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(check.TESTS, "test_training.py", ("json", "no_such_module", "nor.this"))
    assert check.run_tests("test_training.py") == {"not_run": "no_such_module, nor.this missing"}
    monkeypatch.setattr(check, "PROGRAM", ("no_such_module",))
    assert check.bench_verb("step") == {"not_run": "no_such_module missing"}


def test_a_verb_is_measured() -> None:
    tiny = ("--recipe", "digits", "--classes", "4", "--steps", "1", "--repeats", "1", "--device", "cpu")
    found = check.bench_verb("step", *tiny)
    assert found["bench_command"].startswith("mptctl bench step --recipe digits")
    assert {row["name"] for row in found["rows"]} >= {"student", "ours"}


def test_a_verb_that_fails_says_so() -> None:
    assert check.bench_verb("step", "--recipe", "no-such-recipe") == {"failed": 2}


@pytest.mark.parametrize("name", check.VERBS)
def test_the_verbs_know_their_words(name: str) -> None:
    words = check.VERBS[name]
    assert check.bench_verb(*words, "--device", "no-such-device") == {"failed": 2}
