"""Finds the fastest layout of the fused loss for each size on this GPU, beside a copy of as many bytes.

python -m tests.gpu.tune_kernel --compile     without a card: compiles every layout for sm_90 into Triton's cache
python -m tests.gpu.tune_kernel --out FOLDER  on the card: tuned.json and tuned.py, written anew after each size
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from mpt_kernels import mpt_loss, triton_backend, triton_sums, tuned
from mpt_kernels.layouts import FEW_ROWS, NarrowLayout, Size, WideLayout
from mpt_kernels.types import LossSettings
from mptctl.bench.graph_clock import GraphClock
from mptctl.bench.loss_timing import DTYPES, INPUT_BYTES, MOST_CALLS, Inputs, K, least_bytes

Layout = NarrowLayout | WideLayout
# Largest error of the gradient, by the type's rounding, and of the loss, against double precision.
GRADIENT = {torch.float32: 5e-6, torch.bfloat16: 4e-3}
LOSS = 5e-6
# Layouts that are timed again, in turns with the default one and a copy.
FINALISTS, TURNS = 3, 25
# Rows of a comparison with double precision: more than few, and not a multiple of a program's.
CHECKED_ROWS = FEW_ROWS + 89
# Classes of a row up to which the layout that was measured at a width is taken.
MOST_CLASSES = {100: 128, 1000: 1024, 21_841: 2**20}


class Shape(NamedTuple):
    """A size to be tuned: rows, classes, type of all logits, and multiple of elements to which rows are padded."""

    n: int
    c: int
    dtype: str
    pad: int = 1

    @property
    def item_bytes(self) -> int:
        return DTYPES[self.dtype].itemsize

    def __str__(self) -> str:
        return f"{self.n} x {self.c} {self.dtype}{' padded' if self.pad > 1 else ''}"


SHAPES = [
    Shape(n, c, dtype, pad)
    for c, pad in [(100, 1), (1000, 1), (21_841, 1), (21_841, 16)]
    for dtype in DTYPES
    for n in (128, 4096)
    if pad == 1 or n > FEW_ROWS
]


@dataclass
class Found:
    """What came out for a size; times in microseconds of one call.

    Attributes:
        shape: of the size.
        copy: of a copy that moves as many bytes as the loss must.
        default, best: of the default layout and of the fastest one, in turns with the copy.
        layout: the fastest one.
        sweep: of each layout.
        wrong: layouts that were refused, and why.
    """

    shape: Shape
    copy: float = 0.0
    default: float = 0.0
    best: float = 0.0
    layout: Layout | None = None
    sweep: list[tuple[Layout, float]] = field(default_factory=list)
    wrong: list[tuple[Layout, str]] = field(default_factory=list)

    def line(self) -> str:
        return (
            f"{self.shape}: copy {self.copy:.2f} us, default {self.default:.2f} ({self.copy / self.default:.0%}), "
            f"best {self.best:.2f} ({self.copy / self.best:.0%}) by {self.layout}; {len(self.wrong)} refused"
        )


def layouts(shape: Shape) -> list[Layout]:
    """The layouts that are tried at a size, the default one first."""
    if shape.c > triton_backend.NARROW:
        sizes = [(8, 8), (16, 8), (32, 4)] + [(16, 4)] * (shape.pad == 1)
        wide = {
            WideLayout(*size, caching, power)
            for size in sizes
            for caching, power in itertools.product((False, True), repeat=2)
        }
        return [WideLayout(), *sorted(wide - {WideLayout()}, reverse=True)]
    vectors = (0, 4) if shape.item_bytes == 2 and shape.c > 100 else (0,)
    narrow = {
        NarrowLayout(held, warps, vector, power)
        for held, warps, vector, power in itertools.product(
            (4, 8, 16, 32), (1, 2, 4, 8), vectors, (False, True)
        )
        if warps * 32 * held >= shape.c and warps * 32 * held <= max(4 * shape.c, 3200)
        if not power or held * warps == 32
    }
    if shape.c > 500 and shape.n > FEW_ROWS:
        narrow = {layout for layout in narrow if layout.held >= 16}
    return [NarrowLayout(), *sorted(narrow - {NarrowLayout()})]


def inputs(shape: Shape, device: torch.device, seed: int, spread: float = 3.0) -> Inputs:
    """Draw normal logits and labels, rows padded as the shape says; half of the classes are old."""
    generator = torch.Generator(device).manual_seed(seed)

    def logits(width: int) -> Tensor:
        room = torch.empty(
            shape.n, triton.cdiv(width, shape.pad) * shape.pad, dtype=DTYPES[shape.dtype], device=device
        )
        room.normal_(0.0, spread, generator=generator)
        return room[:, :width]

    target = torch.randint(0, shape.c, (shape.n,), generator=generator, device=device)
    return logits(shape.c), target, logits(shape.c // 2), logits(shape.c)


def loss(logits: Tensor, target: Tensor, old: Tensor, ref: Tensor) -> Any:
    """The MPT-KL loss by the fused kernel."""
    return mpt_loss(
        logits, target, old, ref, num_old=old.shape[1], k=K, normalizer=logits.shape[0], backend="triton"
    )


def choose(shape: Shape, layout: Layout, capability: int) -> None:
    """Let the fused loss take a layout for a size."""
    tuned.NARROW.clear()
    tuned.WIDE.clear()
    size = Size(capability, shape.c, shape.item_bytes, shape.n <= FEW_ROWS)
    if isinstance(layout, NarrowLayout):
        tuned.NARROW[size] = layout
    else:
        tuned.WIDE[size] = layout


def why_wrong(shape: Shape, device: torch.device) -> str:
    """Compare the fused loss with double precision and a second call with the first; why to refuse it, or ''."""
    few = Shape(min(shape.n, CHECKED_ROWS), *shape[1:])
    logits, target, old, ref = inputs(few, device, 99)
    for x in (logits, old, ref):  # classes that are ruled out, one of them by the student alone
        x[0, 3] = x[1, x.shape[1] - 1] = -float("inf")
    logits[2, 5], old[2, 5], ref[2, 5] = -float("inf"), -1e4, -1e4
    target[:4] = torch.tensor([0, 1, 2, -100], device=device)
    out, again = loss(logits, target, old, ref), loss(logits, target, old, ref)
    truth = mpt_loss(
        logits.double(), target, old.double(), ref.double(), num_old=old.shape[1], k=K, normalizer=few.n,
        backend="reference",
    )  # fmt: skip
    if not (torch.equal(out.grad, again.grad) and torch.equal(out.loss, again.loss)):
        return "a second call gives other bits"
    error = float((out.grad.double() - truth.grad).norm() / truth.grad.norm())
    if not error <= GRADIENT[logits.dtype]:
        return f"the gradient is off by {error:.1e}"
    for name, term in truth.terms.items():
        off = abs(float(out.terms[name]) / float(term) - 1)
        if not off <= LOSS:
            return f"{name} is off by {off:.1e}"
    if {k: int(v) for k, v in out.correct.items()} != {k: int(v) for k, v in truth.correct.items()}:
        return "right predictions are counted otherwise"
    return ""


def tune(shape: Shape, device: torch.device, capability: int, seconds: float) -> Found:
    """Time every layout of a size within some seconds, then the best ones in turns with the default and a copy."""
    end = time.monotonic() + seconds
    moved = least_bytes(shape.n, shape.c, shape.c // 2, shape.item_bytes)
    count = max(1, min(MOST_CALLS, INPUT_BYTES // moved))
    sets = [inputs(shape, device, seed) for seed in range(count)]
    found, clock = Found(shape), GraphClock(device)
    default = layouts(shape)[0]

    def time_of(layout: Layout, repeats: int) -> Callable[[], float]:
        choose(shape, layout, capability)
        return clock.capture(lambda given: loss(*given), sets, repeats)

    for layout in layouts(shape):
        if time.monotonic() > end:
            found.wrong.append((layout, "no time was left"))
            continue
        try:
            choose(shape, layout, capability)
            reason = why_wrong(shape, device)
            if reason:
                found.wrong.append((layout, reason))
                continue
            found.sweep.append((layout, time_of(layout, 5)()))
        except Exception as error:  # what does not compile or launch is listed, never chosen
            found.wrong.append((layout, f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"))
    found.sweep.sort(key=lambda pair: pair[1])
    turns = {
        layout: time_of(layout, 1) for layout in [default, *(layout for layout, _ in found.sweep[:FINALISTS])]
    }
    sources = [torch.empty(moved // 8, device=device).normal_() for _ in sets]
    copy = clock.capture(lambda source: torch.mul(source, 1.0), sources, 1)
    times: dict[Layout | None, list[float]] = {key: [] for key in [None, *turns]}
    for _ in range(TURNS):
        times[None].append(copy())
        for layout, timed in turns.items():
            times[layout].append(timed())
    medians = {key: statistics.median(values) for key, values in times.items()}
    found.copy, found.default = medians.pop(None), medians[default]
    found.layout = min(medians, key=lambda key: medians[key])
    found.best = medians[found.layout]
    clock.close()
    return found


class _Sm90:
    """Stands for Triton's driver where no GPU is: a kernel is compiled for sm_90 as its launch there would do."""

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return device


def compile_one(task: tuple[Shape, Layout]) -> str:
    """Compile a layout for a size as a call of `mpt_loss` on the card would; the reason why not, or ''."""
    from triton.runtime.driver import driver

    shape, layout = task
    if not torch.cuda.is_available():
        driver.set_active(_Sm90())
    models = tuple(
        torch.empty(shape.n, triton.cdiv(w, shape.pad) * shape.pad, dtype=DTYPES[shape.dtype])[:, :w]
        for w in (shape.c, shape.c // 2, shape.c)
    )
    try:
        _compile_launch(shape, layout, *models)
        _compile_launch(
            shape._replace(n=min(shape.n, CHECKED_ROWS)), layout, *(x[:CHECKED_ROWS] for x in models)
        )
    except Exception as error:  # listed, and tried again on the card
        return f"{shape} {layout}: {type(error).__name__}: {str(error)[-200:]}"
    return ""


def _compile_launch(shape: Shape, layout: Layout, logits: Tensor, old: Tensor, ref: Tensor) -> None:
    """Compile the launch of a layout into Triton's cache."""
    target, settings = torch.empty(shape.n, dtype=torch.int64), LossSettings(num_old=shape.c // 2, k=K)
    values, grad, counts = triton_backend.empty_outputs(logits)
    launch = triton_backend.plan(logits, target, old, ref, None, grad, settings, None, layout, 90)
    sums = torch.empty(2, 1, 4)
    launch.kernel.warmup(
        logits, target, old, ref, None, None, None, None, grad, sums, shape.n, K, 1.0 / shape.n, 1.0,
        *triton_backend.kernel_settings(settings, shape.c), **launch.constants, **launch.options, grid=(1,),
    )  # fmt: skip
    triton_sums.add_programs.warmup(
        sums, launch.programs, None, 1.0 / shape.n, values, counts, **triton_backend.sums_options(launch),
        grid=(1,),
    )  # fmt: skip


def compile_all(shapes: list[Shape], processes: int) -> None:
    """Compile every layout of every size, in so many processes."""
    tasks = [(shape, layout) for shape in shapes for layout in layouts(shape)]
    begin = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for reason in pool.imap_unordered(compile_one, tasks):
            if reason:
                sys.stdout.write(f"{reason}\n")
    sys.stdout.write(f"{len(tasks)} layouts compiled, {time.monotonic() - begin:.0f} s\n")
    sys.stdout.flush()


def _records(found: list[Found]) -> Iterator[dict[str, Any]]:
    for one in found:
        record = asdict(one)
        record["shape"] = str(one.shape)
        record["layout"] = str(one.layout)
        for name in ("sweep", "wrong"):
            record[name] = [[str(layout), value] for layout, value in getattr(one, name)]
        yield record


def brief(layout: Layout) -> str:
    """The expression of a layout, without what equals the default."""
    given = layout._asdict().items()
    changed = (f"{name}={value!r}" for name, value in given if value != layout._field_defaults[name])
    return f"{type(layout).__name__}({', '.join(changed)})"


def table(found: list[Found], capability: int, about: str) -> str:
    """The text of `mpt_kernels/tuned.py` with what was fastest; rows that are padded are not in it."""
    chosen: dict[str, list[str]] = {"NARROW": [], "WIDE": []}
    for one in found:
        if one.shape.pad > 1 or one.layout is None:
            continue
        size = Size(capability, MOST_CLASSES[one.shape.c], one.shape.item_bytes, one.shape.n <= FEW_ROWS)
        name = "NARROW" if isinstance(one.layout, NarrowLayout) else "WIDE"
        chosen[name].append(f"    {size!r}: {brief(one.layout)},\n")
    return (
        '"""Layouts of the row kernels that were fastest on a GPU, by size; written by `tests.gpu.tune_kernel`."""\n\n'
        "from mpt_kernels.layouts import NarrowLayout, Size, WideLayout\n\n"
        f"# {about}\n"
        f"NARROW: dict[Size, NarrowLayout] = {{\n{''.join(chosen['NARROW'])}}}\n"
        f"WIDE: dict[Size, WideLayout] = {{\n{''.join(chosen['WIDE'])}}}\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--seconds", type=float, default=150.0, help="of the whole sweep")
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--sizes", default="", help="only sizes whose name contains this")
    given = parser.parse_args()
    shapes = [shape for shape in SHAPES if given.sizes in str(shape)]
    if given.compile:
        compile_all(shapes, given.processes)
        return 0
    device = torch.device("cuda:0")
    major, minor = torch.cuda.get_device_capability(device)
    about = f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}, Triton {triton.__version__}."
    choose(shapes[0], layouts(shapes[0])[0], 10 * major + minor)
    why_wrong(shapes[0], device)  # loads what all sizes need
    end, found = time.monotonic() + given.seconds, []
    given.out.mkdir(parents=True, exist_ok=True)
    for i, shape in enumerate(shapes):
        found.append(tune(shape, device, 10 * major + minor, (end - time.monotonic()) / (len(shapes) - i)))
        sys.stdout.write(found[-1].line() + "\n")
        sys.stdout.flush()
        text = json.dumps({"about": about, "sizes": list(_records(found))}, indent=1)
        (given.out / "tuned.json").write_text(text + "\n", encoding="utf-8")
        (given.out / "tuned.py").write_text(table(found, 10 * major + minor, about), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
