"""The gate file on the command line: exit codes, every output, and `mptctl gate init`."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml

from mptctl.evaluation.limits import LIMITS
from tests.cli.conftest import Call
from tests.common import CommandLine, Done

N = 200
IDS = [f"test/{i:05d}" for i in range(N)]


@pytest.fixture
def call(mptctl: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """Run the command line where of 200 samples the last eight flip, all of them Italian."""
    monkeypatch.chdir(tmp_path)
    labels = np.array(["x", "y"] * (N // 2))
    new = np.where(np.arange(N) < N - 8, labels, "z")
    old = np.where(np.arange(N) < 20, "y", labels)
    np.savez("old.npz", id=IDS, label=labels, pred=old, classes=["x", "y"])
    np.savez("new.npz", id=IDS, label=labels, pred=new, classes=["x", "y", "z"])
    rows = [f"{name},{'it' if i >= 100 else 'de'}" for i, name in enumerate(IDS)]
    Path("meta.csv").write_text("\n".join(["id,country", *rows]) + "\n")
    return mptctl


def evaluate(call: Call, text: str, *words: str) -> Done:
    Path("gate.yaml").write_text(text)
    return call("evaluate", "old.npz", "new.npz", "--gate", "gate.yaml", *words)


META = ("--metadata", "meta.csv")


def test_of_many_waivers_the_last_are_counted_and_their_flips_which_may_be_the_same_are_not(
    call: Call,
) -> None:
    one = "  - {id: test/00199, reason: r, owner: jo, expires: 2999-01-31}\n"
    done = evaluate(call, "limits: {max_nfr: 3.5}\nwaivers:\n" + 12 * one)
    assert done.returncode == 0, done.stderr
    flat = " ".join(done.stdout.split())
    assert flat.count("Waived: 1 flip of test/00199 (r; jo, until 2999-01-31).") == 10
    assert "2 more waivers are used; all of them are in the JSON." in flat
    assert "7 of 200 counted, 1 waived" in flat


def test_an_interval_has_its_level_in_full(call: Call) -> None:
    done = evaluate(call, "confidence: 0.9999999\nlimits: {max_nfr: 99}\n")
    assert "99.99999 % interval" in " ".join(done.stdout.split())


def test_waivers_are_shown_with_reason_and_owner_in_every_output(call: Call) -> None:
    text = (
        "limits: {max_nfr: 3.5}\nwaivers:\n"
        "  - {id: test/00199, reason: 'label <b>disputed</b>', owner: jo, expires: 2999-01-31}\n"
        "  - {id: test/00001, reason: was wrong, owner: al, expires: 2999-01-31}\n"
    )
    done = evaluate(call, text, "--report", "page.html", "--markdown", "page.md")
    assert done.returncode == 0, done.stderr
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    flat = " ".join(done.stdout.split())
    assert "PASSED with waivers NFR 3.50 % within limit 3.5 % (7 of 200 counted, 1 waived)" in flat
    assert "Waived: 1 flip of test/00199 (label <b>disputed</b>; jo, until 2999-01-31)." in flat
    for text_of in (flat, Path("page.html").read_text(), Path("page.md").read_text()):
        assert "No longer needed, to be removed: the waiver of test/00001." in text_of
    for page in ("page.html", "page.md"):
        assert "label &lt;b&gt;disputed&lt;/b&gt;; jo" in Path(page).read_text()
    gate = json.loads(evaluate(call, text, "--json").stdout)["gate"]
    assert gate["limits"] == [
        {"name": "max-nfr", "limit": pytest.approx(0.035), "value": pytest.approx(0.035), "interval": None,
         "answer": "pass", "counted": 7, "waived": 1}
    ]  # fmt: skip
    assert gate["waivers"][0]["owner"] == "jo"
    expired = evaluate(call, text.replace("2999", "1999"), "--json")
    assert expired.returncode == 3
    assert "the waiver of test/00199" in expired.stderr
    assert "expired on 1999-01-31" in expired.stderr


def test_hundreds_of_slices_are_said_in_short(call: Call) -> None:
    groups = [f"g{i // 2:03d}" for i in range(N)]
    np.savez("meta.npz", id=IDS, group=groups)
    rules = [f"  - {{by: {{group: {name}}}, max_nfr: 99}}" for name in sorted(set(groups))]
    done = evaluate(call, "slices:\n" + "\n".join(rules), "--metadata", "meta.npz", "--markdown", "-")
    assert done.returncode == 3
    assert done.stdout.startswith(
        "### ❌ Failed: NFR of group=g096 100.00 % &gt; limit 99 %; NFR of group=g097 "
    )
    assert done.stdout.count("is within the limit of 99 %.") == 16
    assert "80 more limits; all of them are in the JSON." in done.stdout
    assert done.stderr.count("exceeds the limit") == 4


def test_junit_has_one_test_for_each_limit(call: Call) -> None:
    for confidence, failures in (("", []), ("confidence: 0.95\n", ["undecided"])):
        done = evaluate(call, f"{confidence}limits: {{max_nfr: 4.5, max_lost: 90}}", "--junit", "gate.xml")
        assert (done.returncode, "wrote gate.xml" in done.stderr) == (3 if failures else 0, True)
        suite = ElementTree.parse("gate.xml").getroot()[0]
        assert (suite.get("tests"), suite.get("failures")) == ("2", str(len(failures)))
        assert [case.get("name") for case in suite] == ["max-nfr", "max-lost"]
        found = suite.findall("./testcase[@name='max-nfr']/failure")
        assert [failed.get("type") for failed in found] == failures
        assert all("NFR 4.00 %" in str(failed.get("message")) for failed in found)


def test_init_the_comparison_that_it_is_made_of_keeps_to_it(call: Call) -> None:
    done = call("gate", "init", "old.npz", "new.npz", "--by", "country", *META)
    assert (done.returncode, done.stderr, done.stdout) == (0, "wrote gate.yaml\n", "")
    text = Path("gate.yaml").read_text()
    content = yaml.safe_load(text)
    assert content["confidence"] == 0.95
    assert set(content["limits"]) == {kind.key for kind in LIMITS}
    assert [rule["by"] for rule in content["slices"]] == [{"country": "it"}, {"country": "de"}]
    assert "test/00192" in text
    passed = call("evaluate", "old.npz", "new.npz", "--gate", "gate.yaml", *META)
    assert passed.returncode == 0, passed.stderr
    # A hundredth of a point less, and it is not passed any more.
    less = text.replace(
        f"max_nfr: {content['limits']['max_nfr']}", f"max_nfr: {content['limits']['max_nfr'] - 0.01:.2f}"
    )
    assert less != text
    assert evaluate(call, less, *META).returncode == 3


# Right in both, right in OLD, right in NEW, right in none. With 12 of 2,000 the interval of Rel-NFR ends at
# 44155.639 %, which six digits round down; with 3 of 95 at 33967.70 %, where none can be above 9,500 %.
@pytest.mark.parametrize(
    ("table", "rel_nfr"), [((0, 12, 1988, 0), 44155.64), ((0, 3, 90, 2), None), ((2, 3, 80, 15), 4520.29)]
)
def test_init_of_a_poor_old_model(call: Call, table: tuple[int, ...], rel_nfr: float | None) -> None:
    cells = np.repeat(np.arange(4), table)
    common = {"id": np.arange(len(cells)), "label": ["x"] * len(cells), "classes": ["x", "y"]}
    np.savez("poor.npz", pred=np.where(cells < 2, "x", "y"), **common)
    np.savez("good.npz", pred=np.where(cells % 2, "y", "x"), **common)
    assert call("gate", "init", "poor.npz", "good.npz").returncode == 0
    assert yaml.safe_load(Path("gate.yaml").read_text())["limits"].get("max_rel_nfr") == rel_nfr
    passed = call("evaluate", "poor.npz", "good.npz", "--gate", "gate.yaml")
    assert passed.returncode == 0, passed.stderr


def test_init_of_an_old_model_that_may_not_know_all_labels(call: Call) -> None:
    """It never predicts y. Of 100 samples of x and z 10 flip: 10 % of those of x and z."""
    labels = np.array(["x", "y", "z", "y"] * (N // 4))
    np.savez("some.npz", id=IDS, label=labels, pred=np.where(labels == "y", "x", labels))
    np.savez("other.npz", id=IDS, label=labels, pred=np.where(np.arange(N) < 20, "y", labels))
    assert call("gate", "init", "some.npz", "other.npz", "--by", "class").returncode == 0
    content = yaml.safe_load(Path("gate.yaml").read_text())
    # The exact interval of 10 of 100 ends at 17.622 %, that of 10 of 200 at 9.002 %.
    assert content["limits"]["max_nfr"] == 17.63
    # Of 5 of 50 it ends at 21.814 %.
    assert sorted(content["slices"], key=str) == [
        {"by": {"class": name}, "max_nfr": 21.82} for name in ("x", "z")
    ]
    passed = call("evaluate", "some.npz", "other.npz", "--gate", "gate.yaml")
    assert passed.returncode == 0, passed.stderr


def test_init_the_commented_parts_are_gate_file_too(call: Call) -> None:
    assert call("gate", "init", "old.npz", "new.npz").returncode == 0
    text = Path("gate.yaml").read_text()
    begin = text.index("# waivers:")
    bare = "\n".join(line.removeprefix("# ").removeprefix("#") for line in text[begin:].splitlines())
    done = evaluate(call, text[:begin] + bare)
    assert done.returncode == 0, done.stderr
    assert "Waived: 1 flip of test/00192" in " ".join(done.stdout.split())


def test_init_with_hostile_names(call: Call) -> None:
    names = ['a"b', "x: y \\ # z", "line\nbreak\u2028", "\x1b[31m{\x7f\u202e", "\U0001f600"]
    np.savez("meta.npz", id=IDS, group=[names[i % 5] for i in range(N)])
    assert (
        call("gate", "init", "old.npz", "new.npz", "--by", "group", "--metadata", "meta.npz").returncode == 0
    )
    text = Path("gate.yaml").read_text()
    assert {rule["by"]["group"] for rule in yaml.safe_load(text)["slices"]} == set(names)
    assert not any(hidden in text for hidden in "\x1b\x7f\u2028\u202e")
    done = call("evaluate", "old.npz", "new.npz", "--gate", "gate.yaml", "--metadata", "meta.npz")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
