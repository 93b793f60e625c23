"""The check's first thirty seconds: one of everything that only a GPU can show, each told of the moment it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import torch

from mpt_kernels import mpt_loss
from mpt_kernels.types import LossSettings
from tests.gpu.card import DEVICE, NEEDS_CARD, REHEARSED
from tests.gpu.machine import installed
from tests.gpu.results import NotRunError, attempt
from tests.kernels.cases import Case, random_case, relative_error

# Rows, classes, old classes, type: two batches whose rows lie in registers, and one whose rows are read in tiles. Few
# rows, since in a rehearsal an interpreter computes them.
KERNELS = {
    "narrow rows": (520, 8, 5, torch.bfloat16),
    "narrow rows, few": (128, 100, 50, torch.float32),
    "wide rows": (3, 5000, 2500, torch.bfloat16),
}
# Grey levels, on average over a picture, by which a GPU's decoder may differ from Pillow's.
MEAN_DIFFERENCE = 3.0


def main() -> int:
    attempt("the device", device)
    for name, size in KERNELS.items():
        attempt(f"kernel against float64: {name}", partial(kernel, *size))
    for name in KERNELS if REHEARSED else ():
        attempt(f"kernel compiled for sm_90: {name}", partial(compiled_apart, name))
    attempt("replay of a graph", replay)
    attempt("a training step that may not wait", step)
    for name, settings in SHAPES.items():
        attempt(f"DALI against threaded: {name}", partial(dali, settings))
    return 0


def device() -> str:
    """A product of matrices on the device, which is the first thing that a broken machine fails at."""
    x = torch.randn(256, 256, device=DEVICE)
    error = relative_error(x @ x, x.double() @ x.double())
    if not error < 1e-2:
        raise AssertionError(f"a product of matrices is off by {error:.1e}")
    if DEVICE.type == "cpu":
        return "no GPU: rehearsal on the CPU"
    about = torch.cuda.get_device_properties(DEVICE)
    return f"{about.name}, sm_{about.major}{about.minor}, CUDA {torch.version.cuda}"


def case_of(n: int, c: int, num_old: int, dtype: torch.dtype) -> Case:
    torch.manual_seed(0)
    return random_case(n, c, num_old, device=str(DEVICE), dtype=dtype)


def kernel(n: int, c: int, num_old: int, dtype: torch.dtype) -> str:
    """One launch of a row kernel, against the reference in double precision."""
    case = case_of(n, c, num_old, dtype)
    out = case.run(mpt_loss, k=4.0, backend="triton")
    truth = case.to(torch.float64).run(mpt_loss, k=4.0, backend="reference")
    errors = relative_error(out.grad, truth.grad), relative_error(out.loss, truth.loss)
    if not (errors[0] <= (5e-6 if dtype == torch.float32 else 4e-3) and errors[1] <= 5e-6):
        raise AssertionError(f"gradient off by {errors[0]:.1e}, loss by {errors[1]:.1e}")
    counted = {name: int(count) for name, count in out.correct.items()}
    if counted != {name: int(count) for name, count in truth.correct.items()}:
        raise AssertionError(f"right answers are counted otherwise: {counted}")
    return f"gradient off by {errors[0]:.1e}, loss by {errors[1]:.1e}"


def compiled_apart(name: str) -> str:
    """The same kernel compiled in a process whose Triton does not interpret."""
    code = f"from tests.gpu import quick; print(quick.compiled(*quick.KERNELS[{name!r}]))"
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise AssertionError((run.stderr.strip().splitlines() or ["no word"])[-1])
    return run.stdout.strip()


def compiled(n: int, c: int, num_old: int, dtype: torch.dtype) -> str:
    """The same kernel as machine code for a GPU that is not here."""
    from tests.kernels import machine_code

    logits, old = (torch.empty(n, width, dtype=dtype, device="meta") for width in (c, num_old))
    _, code = machine_code.compile_launch(logits, old, logits, LossSettings(num_old=num_old), 90)
    return f"{code.registers} registers, {code.instructions.total()} instructions"


def replay() -> str:
    """A captured step of the loss that is replayed on other inputs."""
    if DEVICE.type == "cpu":
        raise NotRunError(NEEDS_CARD)
    size = KERNELS["narrow rows, few"]
    case, other = case_of(*size), case_of(*size)
    other.logits.mul_(1.5)
    case.run(mpt_loss)  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = case.run(mpt_loss)
    case.logits.copy_(other.logits)
    graph.replay()
    expected = other.run(mpt_loss)
    if not (torch.equal(out.grad, expected.grad) and torch.equal(out.loss, expected.loss)):
        raise AssertionError("a replay does not follow its inputs")
    return "bit-equal to a call"


def step() -> str:
    """A training step with everything in it; a rehearsal takes it on an imagined GPU, where a crossing is an error."""
    need("pydantic", "yaml", "torchvision", "tensorboardX")
    from mptctl.bench.ways_to_train import ways_to_train
    from tests.common import short_recipe
    from tests.imagined_gpu import GPU, Watch, imagined_gpu

    recipe = short_recipe("optim.clip_grad_norm=1.0", "optim.ema=0.9", method="mpt-kl")
    with tempfile.TemporaryDirectory() as scratch:
        if REHEARSED:
            with imagined_gpu():
                train = ways_to_train(recipe, 10, GPU, Path(scratch), ("ours",))[0]["ours"]
                train()
                with Watch() as watch:
                    train()
            return f"nothing crosses; {watch.launched.total()} operations on the device"
        train = ways_to_train(recipe, 10, DEVICE, Path(scratch), ("ours",))[0]["ours"]
        for _ in range(2):  # compiles, and makes the optimizer's state
            train()
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            train()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return "the host did not wait"


# What makes `choose_geometry` take each of its three shapes: class, settings, and whether in training.
SHAPES: dict[str, tuple[dict[str, object], bool]] = {
    "StoredCrops": ({"augment": "random-resized-crop"}, True),
    "CentreCrops": ({"eval_resize": 72}, False),
    "CentreCrops with edges": ({}, False),
}


def dali(settings: tuple[dict[str, object], bool]) -> str:
    """One batch of DALI's, decoded on the device, against Pillow's."""
    need("pydantic", "yaml", "torchvision", "nvidia.dali")
    from mptctl.data.loading.choose import make_loader
    from mptctl.data.loading.dali_pipeline import choose_geometry
    from mptctl.data.loading.part import LoadPlan
    from mptctl.data.split import make_split
    from mptctl.names import Part
    from mptctl.recipe import DataRecipe
    from tests.common import make_folder

    changes, train = settings
    with tempfile.TemporaryDirectory() as scratch:
        root = make_folder(Path(scratch) / "pictures")
        split = make_split("imagefolder", run_root=Path(scratch) / "runs", data_root=root, val_fraction=0.0)

        def first(kind: str, where: torch.device) -> tuple[torch.Tensor, str, str]:
            data = DataRecipe.model_validate({"loader": kind, "image_size": 64, "threads": 2, **changes})
            part: Part = "train" if train else "test"
            plan = LoadPlan(split, data, part, batch_size=8, seed=3, train=train, device=where)
            loader = make_loader(plan)
            try:
                geometry = choose_geometry(plan)
                shape = type(geometry).__name__ + (" with edges" if "canvas" in geometry.names else "")
                return next(iter(loader.epoch(0))).images.cpu(), loader.name, shape
            finally:
                loader.close()

        found, name, shape = first("dali", DEVICE)
        expected, _, _ = first("threaded", torch.device("cpu"))
    std = torch.tensor(DataRecipe().std).view(1, 3, 1, 1)
    apart = float(((found - expected) * std * 255).abs().mean(dim=(1, 2, 3)).max())
    if SHAPES[shape] != settings:
        raise AssertionError(f"the shape of this batch is {shape}")
    if not apart < MEAN_DIFFERENCE:
        raise AssertionError(f"{name}: a picture is {apart:.1f} grey levels off on average")
    return f"{name}: at most {apart:.2f} grey levels off on average over a picture"


def need(*modules: str) -> None:
    """Raise NotRunError with the modules that are not installed."""
    missing = [module for module in modules if not installed(module)]
    if missing:
        raise NotRunError(f"{', '.join(missing)} missing")


if __name__ == "__main__":
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    sys.exit(main())
