"""`train-*`: every method, resumed and not; what is written; each way to be refused or stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import mptctl as package
from mptctl.names import METHOD_NAMES
from tests.acceptance.cases import Case, check, cut, gone, put, written
from tests.common import CommandLine

CPU = "--set runtime.device=cpu --set runtime.threads=1"
STEPS = f"{CPU} --set optim.max_steps=2"
RUN = tuple(
    f"runs/new/{name}"
    for name in ("best.pt", "last.pt", "recipe.yaml", "split.json", "metrics.jsonl", "environment.json")
)

TRAININGS = [
    Case(f"train-old --name new {STEPS} --json", files=RUN),
    Case(f"train-ref --name new {STEPS} --json", files=RUN),
    Case(f"train-mpt --distance lm --k 2 --name new {STEPS} --json", files=RUN),
    Case(f"train-mpt --no-ref --init old --name new {STEPS} --json", files=RUN),
    Case(f"train-mpt --cache-teachers --name new {STEPS} --json", files=(*RUN, "runs/cache/teachers")),
    Case("train-mpt --recipe recipe.yaml --name new --json", files=RUN),
    Case(f"train-mpt --old runs/old --ref runs/ref/best.pt --name new {STEPS} --json", files=RUN),
    Case(f"train-mpt --overwrite {STEPS} --json", files=("runs/mpt-kl/best.pt",)),
    Case(f"train-baseline pct-kl {STEPS} --json", files=("runs/pct-kl/best.pt",)),
    Case(f"train-baseline elodi --ref ref --ref old {STEPS} --set method.elodi_start_epoch=0", 5, "old"),
    Case(f"train-ensemble --size 2 {STEPS} --json", files=("runs/ensemble",)),
    Case(f"train-ref --name new --print-recipe {STEPS}", named="max_steps: 2"),
    Case(f"train-mpt --name new --dry-run {STEPS} --json"),
    Case(f"train-ref --name new --dry-run --set optim.epochs=100000 {CPU}", named="takes       about "),
    Case("train-baseline no-tretment", 2, "no-treatment"),
    Case("train-baseline", 2, "METHOD"),
    Case("train-mpt --name new --set optim.lrr=1", 2, "optim.lrr"),
    Case("train-mpt --name new --set optim.lr=fast", 2, "optim.lr"),
    Case("train-mpt --name new --set optim.lr", 2, "optim.lr"),
    Case("train-mpt --name new --distance l2", 2, "--distance"),
    Case("train-mpt --name new --k much", 2, "--k"),
    Case("train-mpt --name new --recipe gone.yaml", 2, "gone.yaml"),
    Case("train-mpt --name new --recipe bad.yaml", 2, "bad.yaml"),
    Case(f"train-mpt --name new --set optim.batch_size=5000 {CPU}", 2, "optim.batch_size"),
    Case(f"train-mpt --name new --set data.loader=dali {CPU}", 2, "data.loader"),
    Case(f"train-mpt --name new --set model.arch=resnet19 {CPU}", 2, "model.arch"),
    Case("train-mpt --name new --device cuda", 2, "cuda"),
    Case(f"train-mpt {STEPS}", 2, "runs/mpt-kl: already holds a run; go on with --resume, "),
    Case(f"train-mpt --name new --resume --overwrite {STEPS}", 2, "--overwrite"),
    Case(f"train-ref --run-root none {STEPS}", 2, "none"),
    Case(f"train-mpt --name new --max-nfr 5 {STEPS}", 2, "--max-nfr"),
    Case(f"train-baseline elodi --name new {STEPS}", 2, "optim.max_steps"),
    Case("train-baseline elodi --set optim.epochs=6", 2, "optim.epochs to at least 7"),
    Case("train-mpt --name new --max-nfr 2 --k 1", 2, "--max-nfr and --k: the budget moves k; give one of them"),
    Case("train-mpt --name new --confidence 0.9", 2, "says how sure a budget must be; give --max-nfr too"),
    Case("train-mpt --name new --max-nfr 0.01 --dry-run", 2, "validation pictures of old classes cannot show it"),
    Case(f"train-mpt --name new --dry-run --set optim.batch_size=5000 {CPU}", 2, "batch_size 5000: more than the"),
    Case(f"train-mpt --name new --dry-run --set data.image_size=16 {CPU}", 5, "was trained on 8 pixels"),
    Case(f"train-mpt --name new --dry-run --cache-teachers --set runtime.cache_limit_gb=0.000001 {CPU}", 2,
         "runtime.cache_limit_gb"),
    Case(f"train-mpt --name new --dry-run --resume {CPU}", 5, "nothing to resume"),
    Case(f"train-ensemble --size 0 {STEPS}", 2, "--size"),
    Case(f"train-ref --name new {STEPS}", 4, "runs/split.json", before=written("runs/split.json", "{")),
    Case(f"train-ref --name new {STEPS}", 4, "runs/split.json",
         before=lambda place: _edit(place / "runs/split.json", num_old=4)),
    Case(f"train-ref --name new {STEPS}", 4, ".arrow", before=lambda place: _no_table(place)),
    Case(f"train-ref --run-root of-photos --recipe digits --set optim.batch_size=8 --set data.image_size=8 {STEPS}", 4,
         "photos",
         before=lambda place: _lose_pictures(place)),
    Case(f"train-mpt --name new --old gone {STEPS}", 5, "gone"),
    Case(f"train-mpt --name new --ref gone {STEPS}", 5, "gone"),
    Case(f"train-mpt --name new {STEPS}", 5, "runs/old/best.pt", before=cut("runs/old/best.pt", 900)),
    Case(f"train-mpt --name new {STEPS}", 5, "runs/ref/best.pt", before=written("runs/ref/best.pt", "no weights")),
    Case(f"train-ref --name new --resume {STEPS}", 5, "runs/new"),
    Case(f"train-ref --resume --seed 7 {CPU}", 5, "runtime.seed"),
    Case(f"train-ref --name new --set model.pretrained=gone.pt {STEPS}", 5, "gone.pt"),
    Case(f"train-ref --name new --set optim.lr=1e30 --set optim.epochs=3 {CPU}", 6, "new"),
    Case(f"train-ref --run-root file/runs {STEPS}", 2, "file"),
]  # fmt: skip


def _edit(path: Path, **keys: object) -> None:
    put(path, json.dumps(json.loads(path.read_text()) | keys).encode())


def _no_table(place: Path) -> None:
    for path in (place / "runs").glob("split-*.arrow"):
        path.unlink()


def _lose_pictures(place: Path) -> None:
    from mptctl.data.split import make_split

    make_split("imagefolder", run_root=place / "of-photos", data_root=place / "photos", val_fraction=0.25)
    gone("photos/train/class0/01.jpg")(place)


@pytest.mark.parametrize("case", TRAININGS, ids=str)
def test_command(case: Case, place: Path, mptctl: CommandLine) -> None:
    check(case, place, mptctl)


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_every_method_goes_on_as_if_it_had_not_been_stopped(
    method: str, place: Path, mptctl: CommandLine
) -> None:
    verb = (
        f"train-mpt --distance {method[-2:]}"
        if method in ("mpt-kl", "mpt-lm")
        else f"train-baseline {method}"
    )
    reference = " --ref ref --ref ref-2" if method.startswith("elodi") else ""
    if reference:
        check(Case(f"train-ref --name ref-2 --seed 2 {STEPS}"), place, mptctl)
    keys = f"{CPU} --set optim.schedule=constant --set method.elodi_start_epoch=0 --set optim.epochs=2{reference}"
    check(Case(f"{verb} --name whole {keys} --set optim.max_steps=14"), place, mptctl)
    check(Case(f"{verb} --name parted {keys} --set optim.max_steps=3"), place, mptctl)
    printed = check(
        Case(f"{verb} --name parted {keys} --set optim.max_steps=14 --resume --json"), place, mptctl
    )
    assert printed["steps"] == 14
    one, other = (package.load(f"runs/{name}/last.pt").model.state_dict() for name in ("whole", "parted"))
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
    errors = [_validation_errors(place / "runs" / name / "metrics.jsonl") for name in ("whole", "parted")]
    assert errors[0]
    assert errors[0].items() <= errors[1].items()  # where it stopped, the parted run validated too


def _validation_errors(path: Path) -> dict[int, float]:
    """The validation errors of a run, by their steps."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {line["step"]: line["val_error"] for line in lines if line["event"] == "epoch"}
