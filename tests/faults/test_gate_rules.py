"""Rows 58 and 69: flags beside a gate file, and waivers, that would let more pass than was agreed to."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.common import CommandLine

Pair = tuple[Path, Path]


def write_gate(folder: Path, text: str) -> Path:
    """A gate file in a folder."""
    path = folder / "gate.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--confidence", "0.999", "--undecided", "pass"), "--undecided pass: has no effect"),
        (("--undecided", "pass"), "--undecided pass: has no effect"),
        (("--confidence", "0.5"), "says 0.95; the stricter of the two is used, 0.95"),
        (("--max-nfr", "90"), "says 12; the stricter of the two is used, 12"),
    ],
)
def test_row_58_a_flag_beside_a_gate_file_loosens_nothing(
    tmp_path: Path, pair: Pair, mptctl: CommandLine, flags: tuple[str, ...], said: str
) -> None:
    """20 flips of 200, 6.2 to 15.0 %: 12 % is undecided at 0.95, and at 0.5 it would pass."""
    gate = write_gate(tmp_path, "confidence: 0.95\nlimits: {max_nfr: 12}")
    assert mptctl("evaluate", *pair, "--max-nfr", "12", "--confidence", "0.5").returncode == 0
    done = mptctl("evaluate", *pair, "--gate", gate, "--json", *flags)
    assert done.returncode == 3
    report = json.loads(done.stdout)
    assert (report["gate"]["undecided"], report["gate"]["max_nfr"]) == ("fail", 0.12)
    assert any(said in warning for warning in report["warnings"])


def waived(what: str) -> str:
    """A gate file that all flips of the pair would break, were they not waived."""
    return f"limits: {{max_nfr: 1}}\nwaivers: [{{reason: r, owner: o, {what}}}]"


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("by: {class: '1'}, expires: 2999-01-31", "give max_flips"),
        ("id: '3', expires: 32503680000", "must be a day such as 2027-01-31"),
        ("id: '3', expires: 20300131", "must be a day such as 2027-01-31"),
    ],
)
def test_row_69_a_waiver_without_a_cap_or_a_day_is_refused(
    tmp_path: Path, pair: Pair, mptctl: CommandLine, what: str, said: str
) -> None:
    done = mptctl("evaluate", *pair, "--gate", write_gate(tmp_path, waived(what)))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_row_69_a_waiver_of_a_slice_holds_no_further_than_its_cap(
    tmp_path: Path, pair: Pair, mptctl: CommandLine
) -> None:
    rule = "by: {class: '1'}, expires: 2999-01-31, max_flips: 1"
    done = mptctl("evaluate", *pair, "--gate", write_gate(tmp_path, waived(rule)), "--json")
    assert done.returncode == 3
    gate = json.loads(done.stdout)["gate"]
    assert gate["failed"] == ["max-nfr", "exceeded-waiver"]
    assert (gate["limits"][0]["counted"], gate["limits"][0]["waived"]) == (20, 0)


@pytest.fixture(params=["Etc/GMT-14", "Etc/GMT+12"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """One of two time zones; at any moment at least one of them has another day than UTC."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def test_row_69_the_day_of_a_waiver_is_that_of_utc(
    tmp_path: Path, pair: Pair, mptctl: CommandLine, zone: str
) -> None:
    today = datetime.now(UTC).date()
    for expires, expired in ((today, False), (today - timedelta(days=1), True)):
        gate = write_gate(tmp_path, waived(f"id: '3', expires: {expires}"))
        report = json.loads(mptctl("evaluate", *pair, "--gate", gate, "--json").stdout)
        assert report["gate"]["waivers"][0]["expired"] is expired, zone
