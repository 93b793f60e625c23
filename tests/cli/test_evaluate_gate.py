"""Limits of `mptctl evaluate`: what passes, what fails with 3, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Call


def test_a_gate_that_fails_exits_3_after_the_report_and_names_every_limit(call: Call) -> None:
    done = call(
        "old.npz", "new.npz", "--max-nfr", "33", "--max-er-increase", "10", "--max-rel-nfr", "200", "--json"
    )
    assert done.returncode == 3
    page = json.loads(done.stdout)
    assert page["gate"]["passed"] is False
    assert page["gate"]["failed"] == ["max-nfr", "max-er-increase"]
    assert done.stderr.count("\n") == 1
    assert "--max-nfr: NFR 33.33 % exceeds the limit of 33 %" in done.stderr
    assert "--max-er-increase" in done.stderr
    assert "--max-rel-nfr" not in done.stderr


def test_an_undecided_gate_exits_3_says_so_everywhere_and_may_be_let_pass(call: Call) -> None:
    words = ("old.npz", "new.npz", "--max-nfr", "34", "--confidence", "0.95")
    done = call(*words, "--report", "page.html", "--markdown", "page.md")
    assert done.returncode == 3
    assert (
        "gate undecided: --max-nfr: NFR 33.33 % (95 % interval 4.33 to 77.72 %) is undecided: the interval contains"
        in done.stderr
    )
    pages = Path("page.html").read_text(), Path("page.md").read_text()
    assert all("Undecided: NFR 33.33 %, limit 34 %" in page for page in pages)
    assert done.stdout.endswith(
        "\nUNDECIDED  NFR 33.33 %, limit 34 %  (2 of 6, 95 % interval 4.33 to 77.72)\n"
    )
    assert "more samples of old classes would settle --max-nfr at this rate." in " ".join(done.stdout.split())
    for text in pages:
        assert "more samples of old classes would settle it with 80 % probability" in " ".join(text.split())
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
