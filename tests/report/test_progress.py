"""What is shown while pictures are passed over and runs go, on a terminal and where there is none."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from mptctl.data.split import make_split
from mptctl.errors import DataError
from mptctl.models.metrics_log import MetricsLine
from mptctl.report.media import progress_bars as progress_bars
from mptctl.report.media import training_progress as progress
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import short_recipe


def console(terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=80)


def text_of(shown: Console) -> str:
    assert isinstance(shown.file, io.StringIO)
    return shown.file.getvalue()


def test_a_terminal_has_a_bar_for_each_pass() -> None:
    shown = console(terminal=True)
    with progress_bars.progress_bars(shown) as progress:
        progress("decoding pictures", 300, 300)
        progress("test pictures", 10, 300)
    text = text_of(shown)
    assert "decoding pictures" in text
    assert "300/300" in text
    assert "10/300" in text


def test_a_log_has_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    shown = console(terminal=False)
    with progress_bars.progress_bars(shown) as progress:
        progress("test pictures", 0, 1500)
        for done in range(1, 1500):
            now += 0.1
            progress("test pictures", done, 1500)
    lines = text_of(shown).splitlines()
    assert len(lines) == 4  # 150 seconds, the first half minute of which says nothing
    assert lines[-1].startswith("test pictures: 1,")
    assert lines[-1].endswith(" of 1,500")


def test_a_pass_of_a_few_seconds_says_nothing_in_a_log() -> None:
    shown = console(terminal=False)
    with progress_bars.progress_bars(shown) as progress:
        for done in range(100):
            progress("checking files", done, 100)
    assert text_of(shown) == ""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes of 160 pictures in PNG files: more than are decoded at a time."""
    rng = np.random.default_rng(0)
    for part, count in (("train", 160), ("val", 2)):
        for label in ("a", "b"):
            (tmp_path / "data" / part / label).mkdir(parents=True)
            for number in range(count):
                pixels = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "data" / part / label / f"{number}.png")
    return tmp_path


def job(folder: Path) -> RunRequest:
    split = make_split("imagefolder", run_root=folder / "runs", data_root=folder / "data")
    recipe = short_recipe(
        "data.image_size=16", "optim.batch_size=32", "optim.epochs=1", "data.loader=resident"
    )
    return RunRequest(recipe, split, folder / "runs" / "ref")


def test_decoding_is_shown_on_a_terminal(folder: Path) -> None:
    shown = console(terminal=True)
    train(job(folder), progress.ProgressBar(shown))
    text = text_of(shown)
    assert "decoding" in text
    assert "288 of 288" in text
    assert text.index("decoding") < text.index("epoch   1")


def test_a_picture_that_cannot_be_decoded_leaves_the_terminal_as_it_was(folder: Path) -> None:
    asked = job(folder)
    broken = Path(asked.split.manifest.file(int(asked.split.indices("train")[-1])))
    was = broken.stat()
    content = bytearray(broken.read_bytes())
    content[60:-20] = bytes(len(content) - 80)  # of the same size and age, so that decoding finds it first
    broken.write_bytes(content)
    os.utime(broken, ns=(was.st_atime_ns, was.st_mtime_ns))
    shown = console(terminal=True)
    live = progress.ProgressBar(shown)
    with pytest.raises(DataError, match=broken.name):
        train(asked, live)
    assert "decoding" in text_of(shown)
    assert not live.bars.live.is_started


def test_validation_is_shown_in_the_bar_and_said_now_and_then_in_a_log(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_bars, "LOG_SECONDS", 0.0)
    shown = console(terminal=False)
    train(job(folder), progress.ProgressLines(shown))
    held_out = int(re.findall(r"validation pictures: (\d+) of (\d+)\n", text_of(shown))[-1][1])
    assert f"validation pictures: {held_out} of {held_out}\n" in text_of(shown)
    terminal = console(terminal=True)
    live = progress.ProgressBar(terminal)
    live.started("ref", 10, 0, [])
    live.progress("validation pictures", 3000, 5000)
    live.bars.refresh()
    live.closed()
    assert "3,000 of 5,000" in text_of(terminal)


@pytest.mark.parametrize(
    ("wait", "long", "said"), [(0.04, True, False), (0.3, False, False), (0.06, True, True)]
)
def test_a_wait_for_data_is_said_where_something_is_to_be_done(wait: float, long: bool, said: bool) -> None:
    line = MetricsLine(event="step", epoch=1, step=3, data_wait=wait)
    assert ("waiting for data" in progress.step_text(line, is_long_run=long)) is said


def test_a_log_of_a_short_run_says_nothing_of_waiting_for_data() -> None:
    shown = console(terminal=False)
    plain = progress.ProgressLines(shown)
    plain.started("ref", 10, 0, [])
    for left, epoch in ((2.0, 1), (3000.0, 2)):
        plain.line(MetricsLine(event="step", epoch=epoch, step=3, data_wait=0.3, seconds_left=left))
        plain.line(MetricsLine(event="epoch", epoch=epoch, step=3, val_error=0.5))
    assert [("waiting" in line) for line in text_of(shown).splitlines() if "epoch" in line] == [False, True]
