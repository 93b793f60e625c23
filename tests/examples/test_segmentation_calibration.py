"""The example for segmentation runs on generated pictures, with an ignored label."""

from __future__ import annotations

import pytest

from examples.segmentation_calibration import IGNORED, generate, main, run


def test_criteria_are_compared_on_generated_pictures(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--epochs", "2", "--criterion", "ce", "mbls"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["ce", "mbls"]
    assert lines[0].split()[1:] != lines[1].split()[1:], "the criterion changes nothing"


def test_outlines_are_ignored_and_the_net_learns() -> None:
    _, labels = generate(16, seed=1)
    assert (labels == IGNORED).any(dim=(1, 2)).all()
    report = run("mbls", epochs=6, pictures=32)
    assert report.n == int((labels != IGNORED).sum())
    # Background is the most of it: a net that says nothing else is right there alone.
    assert report.accuracy > float((labels[labels != IGNORED] == 0).float().mean())
