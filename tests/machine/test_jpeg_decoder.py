"""The decoder of JPEG files: pictures are never turned, and a decoder that cannot be used is said."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mptctl.data.split import Split, make_split
from mptctl.machine.jpeg_decoder import jpeg_decoder
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import Log, short_recipe, smooth_picture
from tests.faults.process import run_forked

PICTURE = smooth_picture(50, 70, 0)


def jpeg(*, turned: int | None = None, **options: object) -> bytes:
    if turned is not None:
        options["exif"] = exif = Image.Exif()
        exif[0x0112] = turned
    stream = io.BytesIO()
    PICTURE.save(stream, "JPEG", **options)
    return stream.getvalue()


def exif_segment(data: bytes) -> bytes:
    start = data.index(b"\xff\xe1")
    return data[start : start + 2 + int.from_bytes(data[start + 2 : start + 4], "big")]


@pytest.mark.parametrize("turned", range(1, 9))
@pytest.mark.parametrize("progressive", [False, True])
def test_no_exif_data_turn_a_picture(turned: int, progressive: bool) -> None:
    data = jpeg(turned=turned, progressive=progressive)
    place = data.rindex(b"\xff\xda")  # of a progressive picture the last scan
    twice, late = (data[:at] + exif_segment(data) + data[at:] for at in (data.index(b"\xff\xdb"), place))
    decode = jpeg_decoder().decode
    assert decode is not None
    for content in (data, twice, late):
        expected = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
        np.testing.assert_array_equal(decode(content).permute(1, 2, 0).numpy(), expected)


def no_torchcodec() -> None:
    """As where its library cannot be loaded."""
    sys.modules["torchcodec.decoders"] = None  # type: ignore[assignment]
    jpeg_decoder.cache_clear()


def test_a_decoder_that_cannot_be_used_is_said_by_all_who_decode(
    folder: Path, runs_of_pictures: Split, tmp_path: Path
) -> None:
    doctor = run_forked("doctor", "--json", before=no_torchcodec)
    (check,) = (each for each in json.loads(doctor.stdout)["checks"] if each["name"] == "JPEG")
    assert (check["state"], check["found"].partition(": ")[0]) == ("unusable", "Pillow")
    dry = run_forked(
        *(
            "train-old",
            "--run-root",
            runs_of_pictures.run_root,
            "--recipe",
            "digits",
            "--dry-run",
            "--name",
            "x",
        ),
        *("--set", "data.loader=threaded", "--set", "optim.batch_size=8"),
        before=no_torchcodec,
    )
    assert "JPEG files by Pillow" in " ".join(dry.stdout.split()), dry.stderr
    words = ("split", "imagefolder", "--data-root", folder, "--run-root", tmp_path / "runs")
    refused = run_forked(*words, "--verify", "decode", before=no_torchcodec)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "compares Pillow with torchcodec" in refused.stderr
    assert run_forked(*words, before=no_torchcodec).returncode == 0


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
