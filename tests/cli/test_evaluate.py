"""`mptctl evaluate` as a person and a program call it: output, files, and exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pytest
import torch

from mptctl.cli.app import main
from mptctl.data.split import Split, make_split
from mptctl.evaluation.readers import READERS
from mptctl.models.checkpoint import CheckpointMeta, save_checkpoint
from mptctl.models.metrics_log import MetricsLine
from mptctl.models.networks import build_model
from mptctl.recipe import load_recipe

IDS = np.array([f"test/{i:05d}" for i in range(8)])
LABELS = np.array([0, 0, 0, 0, 1, 1, 2, 2])
# Old knows 0 and 1: right on five of its six. New: one flip to 1, one flip to 2; one positive flip.
OLD = np.array([0, 0, 0, 0, 1, 0, 1, 1])
NEW = np.array([0, 0, 1, 0, 2, 1, 2, 2])


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):  # type: ignore[no-untyped-def]
    """Run the command line in an empty folder that holds old.npz and new.npz."""
    monkeypatch.chdir(tmp_path)
    np.savez("old.npz", id=IDS, label=LABELS, pred=OLD, classes=[0, 1])
    np.savez("new.npz", id=IDS[::-1], label=LABELS[::-1], pred=NEW[::-1], classes=[0, 1, 2])

    def run(*words: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["mptctl", "evaluate", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Outcome(ended.value.code, out, err)

    return run


def logits(path: str, columns: int, seed: int, labels: np.ndarray = LABELS) -> None:
    rng = np.random.default_rng(seed)
    np.savez(path, id=IDS, label=labels, logits=rng.normal(size=(8, columns)), classes=np.arange(columns))


def test_the_table_fits_80_columns_and_is_plain_in_a_pipe(call) -> None:  # type: ignore[no-untyped-def]
    done = call("old.npz", "new.npz")
    assert done.code == 0
    assert max(len(line) for line in done.out.splitlines()) <= 80
    assert "\x1b" not in done.out
    assert "6 test samples of old classes" in done.out
    assert "old right          3          2" in done.out
    assert "33.33 %" in done.out
    assert done.err == ""


def test_json_is_one_object_and_nothing_else(call) -> None:  # type: ignore[no-untyped-def]
    done = call("old.npz", "new.npz", "--json")
    page = json.loads(done.out)
    assert (page["n"], page["n_old"]) == (8, 6)
    assert page["counts"] == {"both_right": 3, "negative_flips": 2, "positive_flips": 1, "both_wrong": 0}
    assert page["nfr"] == pytest.approx(2 / 6)
    assert page["rel_nfr"] == pytest.approx((2 / 6) / ((5 / 6) * (2 / 6)))
    assert page["new"]["er_all"] == pytest.approx(2 / 8)
    assert page["old"]["ece"] is None
    assert page["gate"] == {
        "max_nfr": None,
        "max_lost": None,
        "max_rel_nfr": None,
        "max_er_increase": None,
        "confidence": None,
        "undecided": "fail",
        "allow_identical": False,
        "allow_unfinished": False,
        "passed": True,
        "answer": "pass",
        "failed": [],
        "checks": [],
        "limits": [],
        "waivers": [],
    }


def test_a_gate_that_holds(call) -> None:  # type: ignore[no-untyped-def]
    done = call("old.npz", "new.npz", "--max-nfr", "34", "--json")
    assert done.code == 0
    assert json.loads(done.out)["gate"]["max_nfr"] == pytest.approx(0.34)


def test_a_gate_that_fails_exits_3_after_the_report_and_names_every_limit(call) -> None:  # type: ignore[no-untyped-def]
    done = call(
        "old.npz", "new.npz", "--max-nfr", "33", "--max-er-increase", "10", "--max-rel-nfr", "200", "--json"
    )
    assert done.code == 3
    page = json.loads(done.out)
    assert page["gate"]["passed"] is False
    assert page["gate"]["failed"] == ["max-nfr", "max-er-increase"]
    assert done.err.count("\n") == 1
    assert "--max-nfr: NFR 33.33 % exceeds the limit of 33 %" in done.err
    assert "--max-er-increase" in done.err
    assert "--max-rel-nfr" not in done.err


def test_with_confidence_the_upper_bound_must_pass(call) -> None:  # type: ignore[no-untyped-def]
    assert call("old.npz", "new.npz", "--max-nfr", "34").code == 0
    assert call("old.npz", "new.npz", "--max-nfr", "34", "--confidence", "0.95").code == 3
    assert call("old.npz", "new.npz", "--max-nfr", "80", "--confidence", "0.95").code == 0


def test_an_undecided_gate_exits_3_says_so_everywhere_and_may_be_let_pass(call) -> None:  # type: ignore[no-untyped-def]
    words = ("old.npz", "new.npz", "--max-nfr", "34", "--confidence", "0.95")
    done = call(*words, "--report", "page.html", "--markdown", "page.md")
    assert done.code == 3
    assert "gate undecided: --max-nfr: NFR 33.33 % (9.68 to 70.00 % with 95 % confidence)" in done.err
    pages = Path("page.html").read_text(), Path("page.md").read_text()
    assert all("Gate undecided: max-nfr" in page for page in pages)
    assert done.out.endswith("\nUNDECIDED: NFR 33.33 % (2 of 6; 95 %: 9.68 to 70.00), limit 34 %\n")
    assert "more samples of old classes would decide max-nfr" in " ".join(done.out.split())
    for text in pages:
        assert "more samples of old classes would decide it" in " ".join(text.split())
    assert max(len(line) for line in done.out.splitlines()) <= 80
    let = call(*words, "--undecided", "pass", "--json")
    gate = json.loads(let.out)["gate"]
    assert (let.code, gate["answer"], gate["passed"]) == (0, "undecided", True)
    failed = call("old.npz", "new.npz", "--max-nfr", "9", "--confidence", "0.95", "--undecided", "pass")
    assert failed.code == 3


def test_a_gate_on_a_rate_that_is_not_defined_fails(call) -> None:  # type: ignore[no-untyped-def]
    np.savez("perfect.npz", id=IDS, label=LABELS, pred=LABELS)
    done = call("old.npz", "perfect.npz", "--max-rel-nfr", "100", "--json")
    assert done.code == 3
    assert json.loads(done.out)["rel_nfr"] is None
    assert "n/a" in done.err


def test_nan_in_logits_exits_6_and_prints_no_rate(call) -> None:  # type: ignore[no-untyped-def]
    bad = np.zeros((8, 3))
    bad[[1, 5], 2] = np.nan
    np.savez("bad.npz", id=IDS, label=LABELS, logits=bad, classes=[0, 1, 2])
    done = call("old.npz", "bad.npz", "--json")
    assert (done.code, done.out) == (6, "")
    assert "bad.npz: 2 of 8 rows" in done.err


def test_no_sample_of_an_old_class_exits_4(call) -> None:  # type: ignore[no-untyped-def]
    np.savez("a.npz", id=IDS[:4], label=LABELS[:4], pred=OLD[:4], classes=[0, 1])
    Path("classes.txt").write_text("1\n")
    np.savez("b.npz", id=IDS[:4], label=LABELS[:4], pred=NEW[:4])
    done = call("a.npz", "b.npz", "--old-classes", "classes.txt")
    assert done.code == 4
    assert done.err.count("\n") == 1
    assert "none of its 4 samples is of an old class" in done.err


@pytest.mark.parametrize(
    ("ids", "labels", "message"),
    [
        (IDS[:7], LABELS[:7], "lacks 1 of its ids (test/00007)"),
        ([*IDS, "more"], [*LABELS, 0], "has 1 ids more (more)"),
        ([*IDS[:7], IDS[0]], LABELS, "1 ids stand there more than once (test/00000)"),
        (IDS, [1, 1, 1, 1, 0, 0, 2, 2], "6 labels differ from old.npz"),
    ],
)
def test_ids_and_labels_that_do_not_match_exit_4(
    call, ids: list[str], labels: list[int], message: str
) -> None:  # type: ignore[no-untyped-def]
    np.savez("bad.npz", id=np.array(ids), label=np.array(labels), pred=np.zeros(len(ids), dtype=int))
    done = call("old.npz", "bad.npz")
    assert (done.code, done.out) == (4, "")
    assert message in done.err


def test_old_classes_that_the_new_file_lacks_are_named(call) -> None:  # type: ignore[no-untyped-def]
    np.savez("bad.npz", id=IDS, label=LABELS, pred=np.zeros(8, dtype=int), classes=[0, 2])
    done = call("old.npz", "bad.npz")
    assert done.code == 4
    assert "does not know 1 of the 2 old classes (1)" in done.err


@pytest.mark.parametrize(
    "words",
    [
        ("old.npz", "new.npz", "--max-nfr", "101"),
        ("old.npz", "new.npz", "--max-nfr", "-1"),
        ("old.npz", "new.npz", "--max-nfr", "two"),
        ("old.npz", "new.npz", "--max-nfr", "nan"),
        ("old.npz", "new.npz", "--max-lost", "100.5"),
        ("old.npz", "new.npz", "--max-lost", "-1"),
        ("old.npz", "new.npz", "--max-rel-nfr", "inf"),
        ("old.npz", "new.npz", "--max-rel-nfr", "nan"),
        ("old.npz", "new.npz", "--max-rel-nfr", "601"),  # six samples
        ("old.npz", "new.npz", "--max-er-increase", "-inf"),
        ("old.npz", "new.npz", "--confidence", "95"),
        ("old.npz", "new.npz", "--confidence", "1e-9"),
        ("old.npz", "new.npz", "--confidence", "nan"),
        ("old.npz", "new.npz", "--margin", "0"),
        ("old.npz", "new.npz", "--nfr-margin", "0"),
        ("old.npz", "new.npz", "--old-classes", "nowhere.txt"),
        ("old.npz", "new.npz", "--sort", "size"),
        ("old.npz", "new.npz", "--json", "--markdown", "-"),
        ("old.npz", "--max-nfr", "2"),  # a gate without NEW
    ],
)
def test_wrong_flags_exit_2_in_one_line(call, words: tuple[str, ...]) -> None:  # type: ignore[no-untyped-def]
    done = call(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1


def test_a_model_that_is_not_there(call) -> None:  # type: ignore[no-untyped-def]
    assert call("nowhere.npz", "new.npz").code == 4
    done = call("nowhere", "new.npz")
    assert done.code == 5
    assert "nowhere" in done.err


def test_a_file_below_the_run_root_is_found(call) -> None:  # type: ignore[no-untyped-def]
    Path("elsewhere").mkdir()
    Path("old.npz").rename("elsewhere/prod.npz")
    assert call("prod.npz", "new.npz", "--run-root", "elsewhere").code == 0


def test_parts_and_patterns_are_found_below_the_run_root_too_and_never_written_over(call) -> None:  # type: ignore[no-untyped-def]
    Path("elsewhere/prod").mkdir(parents=True)
    Path("old.npz").rename("elsewhere/prod/part-0.npz")
    for name in ("prod/part-*.npz", "elsewhere/prod"):
        assert call(name, "new.npz", "--run-root", "elsewhere").code == 0
    done = call("elsewhere/prod", "new.npz", "--markdown", "elsewhere/prod/part-0.npz")
    assert (done.code, done.out) == (2, "")
    assert "is read by this call" in done.err


def test_a_pattern_that_matches_nothing_and_a_size_that_is_none(call) -> None:  # type: ignore[no-untyped-def]
    done = call("old-*.parquet", "new.npz")
    assert (done.code, done.err.count("\n")) == (4, 1)
    assert "matches no file" in done.err
    assert call("old.npz", "new.npz", "--memory-limit", "1kB").code == 2
    assert call("old.npz", "new.npz", "--memory-limit", "100MB").code == 0


def test_all_labels_count_as_old_with_a_note(call) -> None:  # type: ignore[no-untyped-def]
    np.savez("plain.npz", id=IDS, label=LABELS, pred=OLD)
    done = call("plain.npz", "new.npz")
    assert "8 test samples of old classes" in done.out
    assert "all 3 labels count as old" in " ".join(done.out.split())


def test_files_are_written_and_said_on_standard_error(call) -> None:  # type: ignore[no-untyped-def]
    logits("o.npz", 2, 0)
    logits("n.npz", 3, 1)
    done = call(
        *("o.npz", "n.npz", "--json", "--report", "out/page.html", "--figures", "figures"),
        *("--markdown", "comment.md", "--save-predictions", "kept"),
    )
    assert done.code == 0
    json.loads(done.out)
    assert Path("out/page.html").read_text().startswith("<!doctype html>")
    assert Path("comment.md").read_text().startswith("### ")
    assert {p.suffix for p in Path("figures").iterdir()} == {".png", ".svg"}
    for name in ("out/page.html", "comment.md", "kept/old.npz", "kept/new.npz", "figures/margins.png"):
        assert f"wrote {name}" in done.err
    again = json.loads(call("kept/old.npz", "kept/new.npz", "--json").out)
    first = json.loads(done.out)
    for page in (again, first):
        for model in ("old", "new"):
            page[model].pop("name")
        page["bias_sweep"] = [curve["points"] for curve in page["bias_sweep"]]
    assert again == first


def test_markdown_on_standard_output_replaces_the_table(call) -> None:  # type: ignore[no-untyped-def]
    done = call("old.npz", "new.npz", "--markdown", "-", "--max-nfr", "5")
    assert done.code == 3
    assert done.out.startswith("### ❌ Gate failed: max-nfr\n")


def test_slices_are_in_every_output_and_fit_80_columns(call) -> None:  # type: ignore[no-untyped-def]
    Path("meta.csv").write_text(
        "id,country,<b>device|</b>\n"
        + "".join(f"test/{i:05d},{'de' if i < 4 else 'it'},p\n" for i in range(8))
    )
    words = (
        "old.npz",
        "new.npz",
        "--metadata",
        "meta.csv",
        "--by",
        "country,<b>device|</b>",
        "--by",
        "class",
    )
    done = call(*words, "--min-slice", "1", "--report", "page.html", "--markdown", "page.md")
    assert done.code == 0, done.err
    assert max(len(line) for line in done.out.splitlines()) <= 80
    assert "country=de, <b>device|</b>=p" in " ".join(done.out.split())
    assert "country=de, &lt;b&gt;device|&lt;/b&gt;=p" in Path("page.html").read_text()
    assert "| country=de, &lt;b&gt;device\\|&lt;/b&gt;=p | 1 / 4 | 25.00 % |" in Path("page.md").read_text()
    page = json.loads(call(*words, "--min-slice", "4", "--json").out)
    assert [row["by"] for row in page["slices"]] == [{"class": "0"}, {"country": "de", "<b>device|</b>": "p"}]
    assert page["small_slices"] == 2
    row = page["slices"][0]
    assert (row["n"], row["nfr"], row["worse"]) == (4, 0.25, False)
    assert row["nfr_ci95"][0] < 0.25 < row["nfr_ci95"][1]


def test_what_cannot_be_sliced_is_said(call) -> None:  # type: ignore[no-untyped-def]
    done = call("old.npz", "new.npz", "--by", "country")
    assert (done.code, done.out) == (4, "")
    assert "--by country: no such column; old.npz has id, label, pred and 1 more; new.npz has" in done.err
    assert call("old.npz", "new.npz", "--by", "class,").code == 2
    alone = call("old.npz", "new.npz", "--metadata", "meta.csv")
    assert (alone.code, "--metadata: is for --by or --gate" in alone.err) == (2, True)
    assert call("old.npz", "new.npz", "--by", "class,class").code == 2
    assert call("old.npz", "new.npz", "--by", "class", "--fdr", "xx").code == 2
    assert call("old.npz", "new.npz", "--by", "class", "--metadata", "nowhere.csv").code == 4
    assert call("old.npz", "--by", "class").code == 2
    Path("meta.csv").write_text("id,country\n")
    clash = call("old.npz", "new.npz", "--by", "country", "--metadata", "meta.csv", "--markdown", "meta.csv")
    assert clash.code == 2
    assert "is read by this call" in clash.err


def test_noise_floor_and_baseline(call) -> None:  # type: ignore[no-untyped-def]
    logits("o.npz", 2, 0)
    logits("n.npz", 3, 1)
    logits("b.npz", 3, 2)
    logits("o2.npz", 2, 3)
    words = ("o.npz", "n.npz", "--noise-floor", "o2.npz", "--baseline", "b.npz", "--json")
    page = json.loads(call(*words).out)
    assert page["noise_floor"]["name"] == "o2.npz"
    assert [curve["name"] for curve in page["bias_sweep"]][-1] == "b.npz"


@pytest.mark.parametrize("flag", ["--nfr-margin", "--margin"])
def test_margin_of_equivalence_under_its_name_and_the_former_one(call, flag: str) -> None:  # type: ignore[no-untyped-def]
    done = call("old.npz", "new.npz", flag, "2")
    assert "Is NFR below 2 % with 95 % confidence? no." in done.out
    words = call("--help").out.split()
    assert "--nfr-margin" in words
    assert "--margin" not in words


def test_help_names_every_format_that_can_be_read(call) -> None:  # type: ignore[no-untyped-def]
    said = " ".join(call("--help").out.replace("│", " ").split())
    assert ", ".join(READERS) in said


def test_rows_and_order_of_the_classes(call) -> None:  # type: ignore[no-untyped-def]
    assert "(1 of 2; --rows 0 shows all)" in call("old.npz", "new.npz", "--rows", "1").out
    by_name = call("old.npz", "new.npz", "--sort", "name", "--rows", "0").out
    by_rate = call("old.npz", "new.npz", "--sort", "nfr", "--rows", "0").out
    assert by_name.index("\n0  ") < by_name.index("\n1  ")
    assert by_rate.index("\n1  ") < by_rate.index("\n0  ")  # 1 of 2 against 1 of 4


def test_lost_right_answers_have_a_limit(call) -> None:  # type: ignore[no-untyped-def]
    page = json.loads(call("old.npz", "new.npz", "--max-lost", "40", "--json").out)
    assert page["lost"] == pytest.approx(2 / 5)
    assert page["rates"]["lost"]["ci95"][0] < 0.4 < page["rates"]["lost"]["ci95"][1]
    assert page["gate"]["max_lost"] == 0.4
    done = call("old.npz", "new.npz", "--max-lost", "39")
    assert done.code == 3
    assert "--max-lost: share of right answers lost 40.00 % exceeds the limit of 39 %" in done.err
    assert call("old.npz", "new.npz", "--max-lost", "40", "--confidence", "0.95").code == 3


@pytest.mark.parametrize("limit", ["--max-nfr", "--max-lost", "--max-rel-nfr", "--max-er-increase"])
def test_one_model_twice_fails_every_limit_and_without_one_is_said(call, limit: str) -> None:  # type: ignore[no-untyped-def]
    np.savez("copy.npz", id=IDS[::-1], label=LABELS[::-1], pred=OLD[::-1], classes=[0, 1])
    done = call("old.npz", "copy.npz", limit, "100")
    assert done.code == 3
    assert "nothing was compared" in done.err
    assert done.err.count("\n") == 1
    assert call("old.npz", "copy.npz", limit, "100", "--allow-identical").code == 0
    for words in ((), ("--markdown", "-")):
        said = call("old.npz", "copy.npz", *words)
        assert said.code == 0
        assert "Old and new are one and the same model: nothing was compared." in " ".join(said.out.split())
    assert json.loads(call("old.npz", "copy.npz", "--json").out)["identical"] is True
    assert json.loads(call("old.npz", "new.npz", "--json").out)["identical"] is False


def test_an_old_model_that_is_never_right_fails_every_gate(call) -> None:  # type: ignore[no-untyped-def]
    np.savez("never.npz", id=IDS, label=LABELS, pred=np.where(LABELS == 0, 1, 0), classes=[0, 1])
    done = call("never.npz", "new.npz", "--max-nfr", "2", "--json")
    assert done.code == 3
    page = json.loads(done.out)
    assert (page["lost"], page["gate"]["failed"]) == (None, ["old-never-right"])
    assert "the old model is wrong on all 6 samples" in done.err
    assert call("never.npz", "new.npz").code == 0


def test_wrong_data_exits_4_where_the_gate_would_exit_3(call) -> None:  # type: ignore[no-untyped-def]
    np.savez("bad.npz", id=IDS, label=LABELS[::-1], pred=NEW)
    assert call("old.npz", "bad.npz", "--max-nfr", "0").code == 4
    # One model twice, and no sample of an old class.
    np.savez("two.npz", id=IDS[:6], label=LABELS[:6], pred=OLD[:6], classes=[0, 1, 2])
    Path("other.txt").write_text("2\n")
    assert call("two.npz", "two.npz", "--old-classes", "other.txt", "--max-nfr", "2").code == 4


def test_the_seed_of_the_former_bootstrap_is_still_taken(call) -> None:  # type: ignore[no-untyped-def]
    one, two = (call("old.npz", "new.npz", "--seed", seed, "--json") for seed in ("1", "2"))
    assert (one.code, one.out) == (0, two.out)
    assert "--seed" not in call("--help").out


def test_an_unfinished_run_fails_every_limit_and_is_said(call) -> None:  # type: ignore[no-untyped-def]
    split = make_split("digits", run_root=Path("runs"))
    run_folder(split, "old", split.classes.old, "done")
    run_folder(split, "new", split.classes.names, "epoch")
    sentence = "runs/new/best.pt: its run is not finished (epoch 2 of "
    plain = call("old", "new", "--device", "cpu", "--report", "page.html", "--markdown", "page.md", "--json")
    assert plain.code == 0
    page = json.loads(plain.out)
    assert len(page["unfinished"]) == 1
    for text in (page["unfinished"][0], Path("page.html").read_text(), Path("page.md").read_text()):
        assert sentence in text
    for order in (("old", "new"), ("new", "new")):
        done = call(*order, "--device", "cpu", "--max-nfr", "100", "--old-classes", "old.txt")
        assert done.code == 3
        assert sentence in " ".join(done.err.split())
    assert call("old", "new", "--device", "cpu", "--max-nfr", "100", "--allow-unfinished").code == 0
    assert sentence in " ".join(call("old", "new", "--device", "cpu").out.split())


def run_folder(split: Split, name: str, classes: tuple[str, ...], last: Literal["epoch", "done"]) -> None:
    """A run folder with an untrained model; `last` is the last event of its metrics."""
    recipe = load_recipe("digits")
    torch.manual_seed(len(classes))
    model = build_model(recipe.model, len(classes), recipe.data.image_size)
    meta = CheckpointMeta(recipe=recipe, class_names=classes, num_old=split.classes.num_old)
    folder = split.run_root / name
    folder.mkdir()
    save_checkpoint(folder / "best.pt", meta, model.state_dict())
    line = MetricsLine(event=last, epoch=2, step=24)
    (folder / "metrics.jsonl").write_text(line.model_dump_json(exclude_none=True) + "\n")
    Path("old.txt").write_text("\n".join(split.classes.old))
