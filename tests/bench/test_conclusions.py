"""The sentence that each bench ends with, from figures made by hand."""

from __future__ import annotations

import pytest

from mptctl.bench.conclusions import (
    bound_sentence,
    evaluate_sentence,
    kernel_sentence,
    loader_sentence,
    step_sentence,
)
from mptctl.bench.evaluate import EvaluateBench, EvaluateRow
from mptctl.bench.kernel import KernelBench, KernelRow
from mptctl.bench.loader import LoaderBench, LoaderRow, choose_fastest, write_verdict
from mptctl.bench.loader_parts import LoaderParts
from mptctl.bench.step import Ratio, StepBench, StepRatios, StepRow
from mptctl.bench.sweep import LoaderSweep
from mptctl.machine.facts import this_machine

MACHINE = this_machine()


def loaders(rates: dict[str, float], settings: dict[str, float] | None = None) -> LoaderBench:
    rows = [
        LoaderRow(name=name, source="imagefolder", images_per_s=rate, runs=[rate], workers=None, augment="x")
        for name, rate in rates.items()
    ]
    return LoaderBench(
        machine=MACHINE, data="generated", pictures=10, image_size=32, batch_size=8, rows=rows, skipped={},
        verdict=write_verdict(rates, True), fastest=choose_fastest(rates, True),
        sweep=None if settings is None else LoaderSweep(
            rows=[], decoder=None, hardware=None, others=None, settings=settings, verdict=""
        ),
    )  # fmt: skip


def test_the_fastest_loader_is_named_with_what_takes_it() -> None:
    rates = {"dali-cpu": 900.0, "threaded": 700.0, "dataloader-torchcodec": 600.0}
    assert loader_sentence(loaders(rates, {"threads": 4, "prefetch": 2})) == (
        "Fastest here: dali-cpu brings 900 images/s, 1.29 times threaded and 1.50 times dataloader-torchcodec. "
        "To take it: --set data.loader=dali --set data.threads=4 --set data.prefetch=2."
    )
    assert "--set data.loader=threaded." in loader_sentence(loaders({"threaded": 700.0, "dali-cpu": 500.0}))
    assert loader_sentence(loaders({"dataloader-pil": 5.0})) == "No loader of ours was measured."


def parts(disk: float | None = None, short_side: int = 375, **slow: float) -> LoaderParts:
    rates = {"read": 9000.0, "decode": 5000.0, "resize": 4000.0, "copy": 8000.0} | slow
    bound = min(rates, key=lambda name: rates[name])
    return LoaderParts.model_validate(
        {"threads": 2, "images_per_s": rates, "disk": disk, "bound": bound, "short_side": short_side}
    )


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (parts(decode=400.0), "bound by decoding; images/s of each part alone: reading 9,000, decoding 400, "
         "resizing 4,000, copying 8,000. Smaller files come faster: mptctl pack."),
        (parts(decode=400.0, short_side=256), "decoding 400, resizing 4,000, copying 8,000."),
        (parts(read=30.0, disk=90.0), "bound by reading; images/s of each part alone: reading 30, "),
        (parts(disk=90.0), "bound by the disk, 90 images/s where the system's cache does not hold the files; "),
        (parts(disk=7000.0), "bound by resizing; "),
        (parts(copy=70.0), "bound by copying; images/s of each part alone: reading 9,000, decoding 5,000, "
         "resizing 4,000, copying 70."),
        (parts(transform=400.0, disk=90.0), "bound by the disk, 90 images/s"),
        (parts(transform=400.0), "bound by transforming; "),
    ],
)  # fmt: skip
def test_what_bounds_the_threaded_loader_is_said(found: LoaderParts, said: str) -> None:
    sentence = bound_sentence(found, 224)
    assert sentence.startswith("The threaded loader is ")
    assert said in sentence
    bound_by_size = " is bound by trans" not in sentence and " is bound by copying" not in sentence
    assert sentence.endswith("mptctl pack.") == (found.short_side > 256 and bound_by_size)
    whole = loaders({"threaded": 300.0}).model_copy(update={"image_size": 224, "parts": found})
    assert loader_sentence(whole).endswith(f"To take it: --set data.loader=threaded. {sentence}")


def kernels(device: str = "cuda", **us: float) -> KernelBench:
    rows = [
        KernelRow(name=name, n=n, c=100, dtype="float32", us=time, call_us=time, bytes=1, floor_us=1.0)
        for n in (128, 4096)
        for name, time in us.items()
    ]
    return KernelBench(machine=MACHINE, device=device, copy_gb_per_s=9.0, two_launches_us=None, rows=rows)


def test_the_fastest_loss_is_named() -> None:
    assert kernel_sentence(kernels(eager=5.0, compile=4.0)).startswith(
        "Fastest here: compile, at 2 of 2 sizes. Nothing is to be set for the loss: "
    )


def test_without_a_gpu_what_bounds_the_kernel_is_counted() -> None:
    counted = kernels("cpu", triton=1.0)
    binds = [
        row.model_copy(update={"us": None, "binds": name})
        for row, name in zip(counted.rows, ("floor", "sfu"), strict=True)
    ]
    assert kernel_sentence(counted.model_copy(update={"rows": binds})) == (
        "What bounds the kernel: floor at 1 of 2, sfu at 1 of 2. "
        "Nothing is to be set for the loss: a CPU computes it in eager."
    )


def steps(ratios: list[StepRatios]) -> StepBench:
    row = StepRow(name="ours", precision="fp32", images_per_s=9.0, slowest=8.0, fastest=9.0, ms=1.0)
    return StepBench(
        machine=MACHINE, threads=1, method="mpt-kl", arch="resnet18", image_size=32, batch_size=8, num_classes=10,
        loss_backend="reference", clock="wall", steps=1, repeats=1, rows=[row], skipped={}, ratios=ratios,
    )  # fmt: skip


def ratio(median: float) -> Ratio:
    return Ratio(median=median, smallest=0.5, largest=2.0, within=median <= 1.05)


def test_a_step_is_held_against_its_floor_and_the_published_loop() -> None:
    fp32 = StepRatios(
        precision="fp32", ours_to_floor=ratio(1.02), cached_to_student=ratio(1.1), ours_to_published=ratio(0.9),
        ours_to_fp32=None,
    )  # fmt: skip
    none: dict[str, None] = dict.fromkeys(
        ("ours_to_floor", "cached_to_student", "ours_to_published", "ours_to_fp32")
    )
    bf16 = StepRatios.model_validate({"precision": "bf16", **none, "ours_to_floor": ratio(1.05)})
    assert step_sentence(steps([fp32, bf16])) == (
        "A step takes in fp32 1.02 times its floor (at most 1.05), 1.10 times the student alone with cached teachers "
        "(above 1.05), 0.90 times the published loop (at most 1.05); in bf16 1.05 times its floor (at most 1.05)."
    )
    assert step_sentence(steps([StepRatios.model_validate({"precision": "fp32", **none})])) == (
        "No ratio was measured. A ratio needs a pair of rows: ours + floor, ours-cached + student, ours + published, "
        "or ours-graph + floor-graph."
    )
    graph = StepRatios.model_validate({"precision": "fp32", **none, "graph_to_floor_graph": ratio(1.02)})
    assert (
        step_sentence(steps([graph]))
        == "A step takes in fp32 1.02 times its floor as a graph (at most 1.03)."
    )


@pytest.mark.parametrize(("peak", "end"), [(0.5, "nothing is to be set."), (2.0, "larger --memory-limit.")])
def test_what_is_compared_says_whether_memory_was_short(peak: float, end: str) -> None:
    rows = [
        EvaluateRow.model_validate(
            {"name": name, "rows": 1000, "seconds": seconds, "peak_gb": peak, "runs": [seconds]}
        )
        for name, seconds in (("ours", 3.0), ("bare-join", 2.0))
    ]
    found = EvaluateBench(machine=MACHINE, rows=rows, ratio=1.5, memory_limit_gb=2.0)
    assert evaluate_sentence(found).startswith("Ours takes 1.50 times the bare join, ")
    assert evaluate_sentence(found).endswith(end)
