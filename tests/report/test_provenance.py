"""What a page says of where it comes from: digests, recipes, command and versions."""

from __future__ import annotations

import hashlib
import re
import shlex
import sys
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mptctl import __version__
from mptctl.cli.app import app
from mptctl.evaluation.reading.predictions import read_predictions
from mptctl.inference.named_models import NamedModels
from mptctl.models.checkpoint import CheckpointMeta
from mptctl.models.records import Adjustment, BiasEpoch, BiasPath
from mptctl.recipe import change_recipe, find_nearest_preset, load_recipe
from mptctl.report.media.provenance import (
    Change,
    ProvenanceCollector,
    digest_of_files,
    origin_of_checkpoint,
    provenance,
)
from tests.evaluation.files import write

ARGV = ["/usr/bin/mptctl", "evaluate", "old.csv", "a b.csv"]


def predictions(folder: Path) -> tuple[Path, Path]:
    paths = folder / "old.csv", folder / "new.csv"
    for path, answers in zip(paths, (["a", "b", "a"], ["a", "a", "a"]), strict=True):
        write(path, id=["1", "2", "3"], label=["a", "b", "a"], pred=answers)
    return paths


def test_a_file_has_the_digest_that_others_find_too(tmp_path: Path) -> None:
    old, new = predictions(tmp_path)
    found = NamedModels({"old": read_predictions(old), "new": read_predictions(new)})
    made = ProvenanceCollector(found, ARGV, date(2026, 6, 15)).finish()
    assert made.command == "mptctl evaluate old.csv 'a b.csv'"
    assert made.day == "2026-06-15"
    assert made.versions["mptctl"] == __version__
    assert [(origin.role, origin.name) for origin in made.origins] == [
        ("old model", str(old)),
        ("new model", str(new)),
    ]
    for origin, path in zip(made.origins, (old, new), strict=True):
        assert origin.facts == (("digest", f"SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()}"),)


def test_of_parts_the_digest_is_that_of_all_of_them(tmp_path: Path) -> None:
    old, new = predictions(tmp_path)
    both = hashlib.sha256(new.read_bytes() + old.read_bytes()).hexdigest()
    assert digest_of_files(str(tmp_path / "*.csv")) == f"SHA-256 {both} (of 2 parts, one after the other)"
    assert digest_of_files(str(tmp_path / "none.csv")) == "could not be read"


def test_a_checkpoint_says_its_recipe_by_what_it_changes() -> None:
    recipe = change_recipe(load_recipe("cifar100"), {"optim.lr": 0.05, "method.k": 2.5}, "here")
    assert find_nearest_preset(load_recipe("cifar100")).changes == []
    meta = CheckpointMeta(
        recipe=recipe, class_names=("a", "b"), num_old=1, split_fingerprint="f" * 64, epoch=3,
        teachers={"old": "e" * 64}, versions={"torch": "2.11"},
    )  # fmt: skip
    origin = origin_of_checkpoint("new model", "runs/mpt-kl/best.pt", "d" * 64, meta)
    usual = load_recipe("cifar100")
    assert origin.preset == "cifar100"
    assert origin.changes == (
        Change("optim.lr", "0.05", str(usual.optim.lr)),
        Change("method.k", "2.5", str(usual.method.k)),
    )
    facts = dict(origin.facts)
    assert facts["digest"] == "SHA-256 " + "d" * 64
    assert facts["split fingerprint"] == "f" * 64
    assert facts["teacher: old"] == "SHA-256 " + "e" * 64


def test_a_budget_shows_where_it_led_k_and_what_was_taken_off() -> None:
    ks = (1.2, 1.2, 1.75, 1.5, 1.5)
    path = BiasPath(left=(0.3,) * 5, epochs=tuple(BiasEpoch(k=k, flips=9) for k in ks))
    change = Adjustment(
        adjusted="mpt-kl", digest="d" * 64, old="old", kind="bias", biases={"a": 0.25, "b": 0.25}, temperature=1.0,
        max_nfr=0.029, confidence=0.95,
    )  # fmt: skip
    meta = CheckpointMeta(
        recipe=load_recipe("digits"), class_names=("a", "b"), num_old=1, bias_path=path, adjustment=change
    )
    facts = dict(origin_of_checkpoint("new model", "runs/x", "d" * 64, meta).facts)
    assert facts["k by epoch"] == "1.20 in epochs 1 to 2, 1.75 in epoch 3, 1.50 in epochs 4 to 5"
    assert facts["adjusted"] == (
        "from mpt-kl, 0.250 subtracted from every new class's logit, for an NFR of at most 2.9 %, temperature 1"
    )
    plain = meta.model_copy(update={"bias_path": None, "adjustment": None})
    assert {"k by epoch", "adjusted"}.isdisjoint(dict(origin_of_checkpoint("", "", "", plain).facts))


def test_the_page_of_evaluate_lists_every_flip_and_says_where_it_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    ids, labels = [f"{i:03d}" for i in range(60)], ["a", "b"] * 30
    write(old, id=ids, label=labels, pred=labels)
    write(new, id=ids, label=labels, pred=["a"] * 60)
    page = tmp_path / "flips.html"
    words = ["evaluate", str(old), str(new), "--gallery", "2", "--report", str(page), "--json"]
    monkeypatch.setattr(sys, "argv", ["mptctl", *words])
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    text = page.read_text(encoding="utf-8")
    assert hashlib.sha256(new.read_bytes()).hexdigest() in text
    found = re.search("<dt>command</dt><dd>(.*?)</dd>", text)
    assert found is not None
    assert re.sub("<[^>]*>", "", found.group(1)) == shlex.join(["mptctl", *words])
    assert re.search(r'"ids":\["001","003",.*"059"\]', text)
    # What is printed keeps to what was asked for.
    assert done.stdout.count('"old_confidence"') == 2


def test_without_a_command_none_is_named() -> None:
    assert provenance(None, []).command is None
