"""`adjust`, `predict`, `import`, `export`, `fewshot` and `figure`: what is written, and each way to be refused."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.acceptance.cases import Case, check, cut
from tests.common import CommandLine

IMPORT = "import weights.pt --arch digits-net --class-names digits.txt --name new"
EPISODES = "fewshot old --way 4 --shot 2 --episodes 20"


def _nan_weights(place: Path) -> None:
    weights = torch.load(place / "weights.pt", weights_only=True)
    (place / "weights.pt").unlink()
    torch.save(
        {name: value * torch.nan if value.is_floating_point() else value for name, value in weights.items()},
        place / "weights.pt",
    )


CASES = [
    Case(
        "adjust mpt-kl --old old --max-nfr 60 --json",
        files=("runs/mpt-kl-adjusted/best.pt",),
    ),
    Case("adjust no-treatment --old old --max-er-increase 2 --name new --json", files=("runs/new/best.pt",)),
    Case("adjust mpt-kl --temperature --name new --json", files=("runs/new/best.pt",)),
    Case("adjust mpt-kl --old old --max-nfr 0.01 --json", 3, "the least NFR that can be had is"),
    Case("adjust mpt-kl --old old", 2, "--max-nfr"),
    Case("adjust mpt-kl --max-nfr 5", 2, "--old"),
    Case("adjust mpt-kl --old old --max-nfr 5 --max-er-increase 1", 2, "--max-er-increase"),
    Case("adjust mpt-kl --old old --max-nfr 60 --name ref", 2, "ref"),
    Case("adjust mpt-kl --old old --max-nfr 60 --confidence 1", 2, "--confidence"),
    Case(
        "adjust old --old old --max-nfr 60", 2, "the same model: nothing was compared; name the model that is"
    ),
    Case("adjust mpt-kl --old old --max-nfr 200", 2, "between 0 and 100"),
    Case("adjust mpt-kl --temperature --figure a.svg", 2, "--figure"),
    Case("adjust mpt-kl --old old --max-nfr 12 --name mpt-kl --overwrite", 2, "which this command reads"),
    Case("adjust mpt-kl --old old --max-nfr 12 --name ../out", 2, "names no folder"),
    Case("adjust gone --old old --max-nfr 5", 5, "gone"),
    Case("adjust mpt-kl --old gone --max-nfr 5", 5, "gone"),
    Case(
        "adjust mpt-kl --old old --max-nfr 60",
        5,
        "runs/mpt-kl/best.pt",
        before=cut("runs/mpt-kl/best.pt", 900),
    ),
    Case("predict mpt-kl photos --out new2.csv", named="new2.csv", files=("new2.csv",)),
    Case("predict mpt-kl photos --out new2.npz", files=("new2.npz",)),
    Case("predict runs/mpt-kl/best.pt photos --out new2.parquet", files=("new2.parquet",)),
    Case("predict mpt-kl broken --on-bad quarantine --out new2.csv", files=("new2.csv",)),
    Case("predict mpt-kl 'shards/*.tar' --out new2.csv", files=("new2.csv",)),
    Case("predict mpt-kl photos --out new.txt", 2, "new.txt"),
    Case("predict mpt-kl photos", 2, "--out"),
    Case("predict mpt-kl photos --out runs/mpt-kl/best.pt", 2, "runs/mpt-kl/best.pt"),
    Case("predict mpt-kl photos --out photos/train/class0/00.jpg", 2, "00.jpg"),
    Case("predict mpt-kl broken --out new2.csv", 4, "broken/train/class1/02.jpg"),
    Case("predict mpt-kl gone --out new2.csv", 4, "gone"),
    Case("predict mpt-kl empty --out new2.csv", 4, "empty"),
    Case("predict gone photos --out new2.csv", 5, "gone"),
    Case("predict mpt-kl photos --out file/new.csv", 7, "file"),
    Case(IMPORT, named="runs/new/best.pt", files=("runs/new/best.pt",)),
    Case(f"{IMPORT} --run-root other --recipe digits", files=("other/new/best.pt",)),
    Case(f"{IMPORT} --overwrite".replace("new", "mpt-kl"), files=("runs/mpt-kl/best.pt",)),
    Case(
        IMPORT.replace("new", "mpt-kl"),
        2,
        "already holds a run; write anew with --overwrite, or use another --name",
    ),
    Case(f"{IMPORT} --run-root other", 2, "--recipe"),
    Case(IMPORT.replace("digits-net", "resnet19"), 2, "resnet19"),
    Case("import weights.pt --class-names digits.txt --name new", 2, "--arch"),
    Case("import weights.pt --arch digits-net --name new", 2, "--class-names"),
    Case(IMPORT.replace("digits.txt", "gone.txt"), 2, "gone.txt"),
    Case(IMPORT.replace("digits.txt", "two.txt"), 5, "--class-names"),
    Case(IMPORT.replace("digits-net", "resnet18"), 5, "weights.pt"),
    Case(IMPORT, 5, "weights.pt", before=cut("weights.pt", 900)),
    Case(IMPORT.replace("weights.pt", "gone.pt"), 5, "gone.pt"),
    Case(IMPORT, 6, "NaN", before=_nan_weights),
    Case("export mpt-kl --format zip", 2, "--format"),
    Case("export mpt-kl", 2, "--format"),
    Case(
        "export mpt-kl --format safetensors --with-preprocessing",
        2,
        "--with-preprocessing: is for --format onnx",
    ),
    Case("export mpt-kl --format safetensors --out x.onnx", 2, "ending .safetensors"),
    Case("export mpt-kl --format safetensors --tolerance nan", 2, "--tolerance nan"),
    Case("export mpt-kl --format safetensors --out file/x.safetensors", 7, "x.safetensors"),
    Case("export gone --format onnx", 5, "gone"),
    Case(f"{EPISODES} --json"),
    Case(EPISODES, named="%"),
    Case("fewshot old --way 40", 4, "--way"),
    Case("fewshot old --shot 75 --query 16", 4, "class 7: 90 test pictures"),
    Case("fewshot old --way 1", 2, "--way"),
    Case("fewshot old ref", 2, "name one run"),
    Case("fewshot old --out x.png", 2, "--out"),
    Case("fewshot old --analysis --out x.pdf", 2, "x.pdf"),
    Case("fewshot old --episodes 0", 2, "--episodes"),
    Case("fewshot mpt-kl", 4, "mpt-kl"),
    Case("fewshot gone", 5, "gone"),
    Case("figure augment --out seen.png", files=("seen.png",)),
    Case("figure augment --out seen.doc", 2, "seen.doc: name a file that ends in .png or .svg"),
    Case("figure augment --out file/seen.png", 7, "seen.png"),
    Case("figure augment --set data.transforms=[rand]", 2, "data.transforms"),
    Case("figure embedding", 2, "RUN"),
    Case("figure embedding mpt-kl", 5, "mpt-kl/best.pt: has no embedding, and the figure shows 2"),
    Case("figure embedding gone", 5, "gone"),
]
NEEDS = {"onnx": "onnx", "safetensors": "safetensors"}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_command(case: Case, place: Path, mptctl: CommandLine) -> None:
    check(case, place, mptctl)


@pytest.mark.parametrize("form", NEEDS)
def test_an_export_is_a_file_with_its_facts_or_names_what_is_missing(
    form: str, place: Path, mptctl: CommandLine
) -> None:
    line = f"export mpt-kl --format {form} --out model.{form}"
    if importlib.util.find_spec(NEEDS[form]) is None:
        check(Case(line, 2, NEEDS[form]), place, mptctl)
    else:
        check(Case(line, files=(f"model.{form}", f"model.{form}.json")), place, mptctl)


def test_an_adjusted_model_flips_no_more_than_its_budget_on_the_validation_part(
    place: Path, mptctl: CommandLine
) -> None:
    printed = check(Case("adjust mpt-kl --old old --max-nfr 60 --name new --json"), place, mptctl)
    assert printed["validation"]["bound"] <= 0.6
    compared = check(Case("evaluate old new --json"), place, mptctl)
    assert (compared["n"], compared["unfinished"]) == (901, [])


def test_imported_weights_predict_as_those_that_they_are(place: Path, mptctl: CommandLine) -> None:
    check(Case(IMPORT), place, mptctl)
    assert ("new", "imported") in [
        (run["run"], run["state"]) for run in check(Case("runs --json"), place, mptctl)["runs"]
    ]
    for run in ("mpt-kl", "new"):
        check(Case(f"predict {run} photos --out of-{run}.npz"), place, mptctl)
    with np.load("of-mpt-kl.npz") as one, np.load("of-new.npz") as other:
        assert one["id"].tolist() == other["id"].tolist()
        assert np.array_equal(one["logits"], other["logits"])
