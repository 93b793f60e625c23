"""Files that cannot be compared, as a person meets them: an exit code, one line that names the file, and no rate."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.common import CommandLine

IDS = [f"s{i}" for i in range(6)]
LABELS = ["a", "a", "b", "b", "a", "b"]


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with a sound old.csv and new.csv: the third sample flips."""
    monkeypatch.chdir(tmp_path)
    csv("old.csv", LABELS)
    csv("new.csv", ["a", "a", "a", "b", "a", "b"])
    return tmp_path


def csv(name: str, preds: list[str], labels: list[str] | None = None, head: str = "id,label,pred") -> None:
    rows = [",".join(row) for row in zip(IDS, labels or LABELS, preds, strict=True)]
    Path(name).write_text("\n".join([head, *rows]) + "\n")


def test_memory_that_a_comparison_may_take(there: Path, mptctl: CommandLine) -> None:
    """Two files of 400,000 rows in the least memory there is: through, by way of the disk, or 7 with what to do."""
    ids = [f"{i:020d}-{'x' * 60}" for i in range(400_000)]
    labels = ["a", "b"] * (len(ids) // 2)
    for name, answers in (("big-old.parquet", labels), ("big-new.parquet", [labels[-1], *labels[:-1]])):
        parquet.write_table(pa.table({"id": ids, "label": labels, "pred": answers}), name)
    done = mptctl("evaluate", "big-old.parquet", "big-new.parquet", "--memory-limit", "64MB", "--json")
    assert done.returncode in (0, 7), done.stderr
    if done.returncode == 7:
        assert "raise --memory-limit" in done.stderr
    else:
        assert json.loads(done.stdout)["counts"]["negative_flips"] == len(ids)


HOSTILE = "<img src=x onerror=alert(1)>\x1b[2J\u202e::error::|`@all,\"'" + "n" * 9_900


def test_hostile_names_do_no_harm_in_any_output(there: Path, mptctl: CommandLine) -> None:
    """A class, an id, a column and a renamed class that try to be more than text."""
    labels = [HOSTILE if label == "a" else label for label in LABELS]
    ids = [HOSTILE, *IDS[1:]]
    news = ["c" if label != "b" else "b" for label in LABELS]
    parquet.write_table(
        pa.table(
            {"id": ids, "label": labels, "pred": labels, HOSTILE: ["1"] * 6, "classes": [[HOSTILE, "b"]] * 6}
        ),
        "old.parquet",
    )
    classes = [["new " + HOSTILE, "b", "c"]] * 6
    truth = [label.replace(HOSTILE, "new " + HOSTILE) for label in labels]
    parquet.write_table(
        pa.table({"id": ids, "label": truth, "pred": news, "classes": classes}), "new.parquet"
    )
    Path("map.yaml").write_text(f"? {json.dumps(HOSTILE)}\n: {json.dumps('new ' + HOSTILE)}\n")
    words = ["evaluate", "old.parquet", "new.parquet", "--class-map", "map.yaml"]
    words += ["--by", "class"]
    words += ["--min-slice", "1", "--max-nfr", "1", "--github"]
    outputs = ("--report", "p.html", "--markdown", "p.md", "--junit", "p.xml", "--append-history", "h.jsonl")
    done = mptctl(*words, *outputs)
    assert done.returncode == 3, done.stderr
    shown = mptctl("history", "h.jsonl")
    assert shown.returncode == 0
    for text in (done.stdout, done.stderr, shown.stdout, Path("p.md").read_text()):
        assert "\x1b" not in text
    assert "<img" not in Path("p.html").read_text()
    assert "<img" not in Path("p.md").read_text()
    assert len(Path("p.md").read_bytes()) <= 60_000
    ElementTree.parse("p.xml")
    commands = [line for line in done.stderr.splitlines() if line.startswith("::")]
    assert all(
        line.startswith(("::error title=", "::warning title=", "::notice title=")) for line in commands
    )
    assert json.loads(mptctl(*words, "--json").stdout)["counts"]["negative_flips"] == 3
