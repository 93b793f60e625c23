"""The history of releases: what a line holds, what is added, and lines that are damaged."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from mptctl.errors import DataError
from mptctl.evaluation.evaluate import ComparisonRequest, compare
from mptctl.evaluation.gate.gate_file import read_gate_file
from mptctl.evaluation.gate.history import Release, append_release, make_release, read_history
from mptctl.evaluation.limits import Limits
from mptctl.evaluation.reading.predictions import Predictions
from tests.forked import process_of

Pair = tuple[Predictions, Predictions]
DAY = date(2026, 1, 31)


def release(pair: Pair, **limits: float) -> Release:
    return make_release(compare(*pair, ComparisonRequest(limits=Limits(**limits))), DAY)


def test_one_comparison_is_added_once(twenty: Pair, tmp_path: Path) -> None:
    path = tmp_path / "releases.jsonl"
    one, other = release(twenty), release(twenty, max_nfr=0.4)
    assert [append_release(path, each) for each in (one, other, one)] == [None, None, 1]
    later = one.model_copy(update={"date": date(2026, 2, 1)})
    assert append_release(path, later) == 1
    assert read_history(path).releases == [one, other]
    assert append_release(path, release(twenty, max_nfr=0.5)) is None  # held to other limits: another release


def test_what_was_there_stays_to_the_byte(twenty: Pair, tmp_path: Path) -> None:
    path = tmp_path / "releases.jsonl"
    before = release(twenty).model_dump_json().replace('"n":20', '"n": 20')
    path.write_text(before)  # no end of line either
    assert append_release(path, release(twenty, max_nfr=0.4)) is None
    assert path.read_text().splitlines()[0] == before
    assert len(read_history(path).releases) == 2


@pytest.mark.parametrize(
    ("sound", "damaged"),
    [
        ('"nfr":0.', '"nfr":7.'),
        ('"counts":', '"count":'),
        ('"n":20', '"n":NaN'),
        ('"nfr"', "\n"),
        ("{", "[]{"),
    ],
)
def test_a_damaged_line_is_named_and_nothing_is_written(
    twenty: Pair, tmp_path: Path, sound: str, damaged: str
) -> None:
    path = tmp_path / "releases.jsonl"
    line = release(twenty).model_dump_json()
    path.write_text(f"{line}\n{line.replace(sound, damaged)}\n")
    before = path.read_bytes()
    for act in (lambda: read_history(path), lambda: append_release(path, release(twenty, max_nfr=0.5))):
        with pytest.raises(DataError, match=r"releases\.jsonl: line 2 is damaged") as caught:
            act()
        assert (caught.value.exit_code, "\n" in str(caught.value)) == (4, False)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["releases.jsonl"]


def append_five(path: Path, line: str, process: int) -> None:
    """Append a release under five marks of this process's own."""
    one = Release.model_validate_json(line)
    for i in range(5 * process, 5 * process + 5):
        append_release(path, one.model_copy(update={"fingerprint": f"{i:064x}"}))


def test_processes_that_add_at_once_lose_nothing(twenty: Pair, tmp_path: Path) -> None:
    """Four processes of five releases each."""
    line = release(twenty).model_dump_json()
    path = tmp_path / "releases.jsonl"
    running = [process_of(append_five, path, line, i) for i in range(4)]
    for process in running:
        process.join(300)
    assert [process.exitcode for process in running] == [0] * 4
    assert sorted(int(each.fingerprint, 16) for each in read_history(path).releases) == list(range(20))


def test_a_waiver_that_expires_makes_no_other_release(twenty: Pair, tmp_path: Path) -> None:
    """The waiver covers a flip, without which the limit of 20 % is kept; a day later it fails."""
    path = tmp_path / "releases.jsonl"
    flip = compare(*twenty).worst_flips[0].id
    text = f"limits: {{max_nfr: 20}}\nwaivers: [{{id: '{flip}', reason: r, owner: o, expires: 2026-01-31}}]\n"
    (tmp_path / "gate.yaml").write_text(text)
    gate_file = read_gate_file(tmp_path / "gate.yaml")
    days = (DAY, date(2026, 2, 1))
    made = [
        make_release(compare(*twenty, ComparisonRequest(gate_file=gate_file, today=day)), day) for day in days
    ]
    assert [each.verdict for each in made] == ["passed", "failed"]
    assert [append_release(path, each) for each in made] == [None, 1]
    (tmp_path / "gate.yaml").write_text(text.replace("2026-01-31", "2026-03-31"))
    renewed = ComparisonRequest(gate_file=read_gate_file(tmp_path / "gate.yaml"), today=days[1])
    assert append_release(path, make_release(compare(*twenty, renewed), days[1])) is None
