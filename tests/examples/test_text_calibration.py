"""The example for text runs on generated texts, and on a folder that is laid out as 20 Newsgroups is."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.text_calibration import generate_groups, main, run


def test_criteria_are_compared_on_generated_texts(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--epochs", "8"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["ce", "ls", "mbls"]
    assert all(float(line.split()[2]) > 0.5 for line in lines), lines
    # The same seed for all: what differs is the criterion.
    assert len({line.split("NLL")[1] for line in lines[:2]}) == 2


def test_a_folder_of_groups_is_read(tmp_path: Path) -> None:
    train, test, names = generate_groups()
    root = tmp_path / "20news-bydate"
    for part, (texts, groups) in (("train", train), ("test", test)):
        for number, (text, group) in enumerate(zip(texts, groups, strict=True)):
            folder = root / f"20news-bydate-{part}" / names[group]
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number}.txt").write_text(text)
    report = run(root, "mbls", 5)
    assert (report.n, report.classes) == (len(test[0]), 4)
    assert report.accuracy > 0.5
