"""The decoder of JPEG files: one that cannot be used is said, and another one than before."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mptctl.data.split import Split, make_split
from mptctl.machine.jpeg_decoder import jpeg_decoder
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import Done, Log, short_recipe
from tests.faults.process import run_forked


def test_without_torchcodec_pillow_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mptctl.machine.jpeg_decoder.has_package", lambda name: name != "torchcodec")
    assert jpeg_decoder.__wrapped__().name == "Pillow"


def no_torchcodec() -> None:
    """As where its library cannot be loaded."""
    sys.modules["torchcodec.decoders"] = None  # type: ignore[assignment]
    jpeg_decoder.cache_clear()


def test_a_decoder_that_cannot_be_used_is_said_by_all_who_decode(
    folder: Path, runs_of_pictures: Split, tmp_path: Path
) -> None:
    def run(*words: object) -> Done:
        return run_forked(*words, before=no_torchcodec)

    doctor = run("doctor", "--json")
    (check,) = (each for each in json.loads(doctor.stdout)["checks"] if each["name"] == "JPEG")
    assert (check["state"], check["found"].partition(": ")[0]) == ("unusable", "Pillow")
    keys = ("--recipe", "digits", "--set", "data.loader=threaded", "--set", "optim.batch_size=8")
    dry = run("train-old", "--run-root", runs_of_pictures.run_root, *keys, "--dry-run")
    assert "JPEG files by Pillow" in " ".join(dry.stdout.split()), dry.stderr
    words = ("split", "imagefolder", "--data-root", folder, "--run-root", tmp_path / "runs")
    refused = run(*words, "--verify", "decode")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "compares Pillow with torchcodec" in refused.stderr
    assert run(*words).returncode == 0


@pytest.fixture
def runs_of_pictures(folder: Path, tmp_path: Path) -> Split:
    return make_split("imagefolder", run_root=tmp_path / "pictures", data_root=folder, val_fraction=0.0)


def test_a_run_that_goes_on_with_another_decoder_says_so(runs_of_pictures: Split) -> None:
    def go_on(loader: str, steps: int, *, resume: bool) -> list[str]:
        recipe = short_recipe(
            f"data.loader={loader}",
            "data.augment=random-resized-crop",
            f"optim.max_steps={steps}",
            "optim.batch_size=8",
        )
        recipe = recipe.model_copy(update={"optim": recipe.optim.model_copy(update={"schedule": "constant"})})
        log = Log()
        train(RunRequest(recipe, runs_of_pictures, runs_of_pictures.run_root / "run", resume=resume), log)
        return log.notes

    assert any("JPEG files by torchcodec" in note for note in go_on("threaded", 1, resume=False))
    assert not any("were decoded by" in note for note in go_on("threaded", 2, resume=True))
    said = [note for note in go_on("dali", 3, resume=True) if "were decoded by torchcodec until here" in note]
    assert len(said) == 1
