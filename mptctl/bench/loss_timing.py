"""Times the loss on a GPU, forward and backward together: in eager PyTorch, through torch.compile, and fused.

A time is that of the device alone, by `graph_clock`. This file imports torch and mpt_kernels alone, so that
it runs on a bare GPU machine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from mpt_kernels import mpt_loss
from mpt_kernels.types import LossSettings
from mptctl.bench.graph_clock import GraphClock
from mptctl.files import Model

# The sizes for which docs/speed.md makes claims.
ROWS = (128, 4096)
CLASSES = (100, 1000, 21_841)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

# The paper's k for CIFAR-100, and the loss's default temperature and focal weights.
_DEFAULT = LossSettings(num_old=0)
K, TAU, ALPHA, BETA = 4.0, _DEFAULT.tau, _DEFAULT.alpha, _DEFAULT.beta

# A graph has as many calls as their inputs take this many bytes, but at most so many calls.
INPUT_BYTES = 2**30
MOST_CALLS = 20

# logits (N, C), labels (N,), logits of the old model (N, C_old), logits of the reference (N, C)
Inputs = tuple[Tensor, Tensor, Tensor, Tensor]
Call = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class KernelRow(Model):
    """The time of loss and gradient in one way at one size."""

    name: str = Field(description="eager, compile (torch.compile), or ours")
    n: int = Field(description="rows")
    c: int = Field(description="classes; half of them are old")
    dtype: str = Field(description="type of all logits")
    us: float = Field(
        description="microseconds on the GPU, forward and backward, in a graph, on a cold cache"
    )
    call_us: float = Field(description="microseconds of one call, work of the host included, cache warm")
    bytes: int = Field(description="least traffic: logits read once, gradient written once")
    floor_us: float = Field(description="bytes at the speed of a copy")


def least_bytes(n: int, c: int, c_old: int, size: int) -> int:
    """Compute the bytes that loss and gradient of (n, c) logits move at least.

    The logits of three models and the labels are read once. The gradient and the loss are written once.

    Args:
        n, c, c_old: number of rows, of classes, and of old classes.
        size: bytes of one logit.

    >>> least_bytes(1, 4, 2, size=2)
    40
    """
    return n * ((2 * c + c + c_old) * size + 8) + 4


def copy_bandwidth(device: torch.device) -> float:
    """Time a copy far larger than any cache; return bytes read and written a second."""
    size = 2**30
    source = torch.randn(size // 4, device=device)
    sink = torch.empty_like(source)

    # By a kernel: `copy_` in a graph is a transfer, which on an H200 has two thirds of a kernel's speed.
    def copy() -> Tensor:
        return torch.mul(source, 1.0, out=sink)

    # By the device's clock, as the losses are timed: by the host's the copy would seem slower.
    return 2 * size / (1e-6 * GraphClock(device).capture(lambda _: copy(), [None], 10)())


def two_launches(device: torch.device) -> float:
    """Time two launches that do next to nothing within a captured graph; return microseconds of both."""
    x = torch.zeros(1, device=device)
    return GraphClock(device).capture(lambda _: x.add_(1).add_(1), [None] * MOST_CALLS, 25)()


def time_losses(
    n: int, c: int, dtype: str, device: torch.device, bandwidth: float, repeats: int = 25
) -> list[KernelRow]:
    """Time every way to compute the MPT-KL loss and its gradient at one size.

    Args:
        n, c: number of rows and of classes; half of the classes are old.
        dtype: type of all logits, a key of `DTYPES`.
        device: a GPU.
        bandwidth: bytes a second of a copy, for the floor.
        repeats: number of timed replays, of which the median counts.

    Raises:
        RuntimeError: the fused gradient differs from the eager one by more than rounding.
    """
    torch._dynamo.reset()
    compiled = torch.compile(eager_loss, fullgraph=True, dynamic=False)
    ways: dict[str, Call] = {
        "eager": _by_autograd(eager_loss),
        "compile": _by_autograd(compiled),
        "ours": _fused_gradient,
    }
    size = DTYPES[dtype].itemsize
    moved = least_bytes(n, c, c // 2, size)
    count = max(1, min(MOST_CALLS, INPUT_BYTES // moved))
    sets = [_random_inputs(n, c, DTYPES[dtype], device, seed) for seed in range(count)]
    _refuse_wrong_gradient(sets[0])
    floor = moved / bandwidth * 1e6
    times = []
    for name, call in ways.items():
        call_us = _call_us(call, sets[0], device, repeats)
        us = GraphClock(device).capture(partial(_called, call), sets, repeats)()
        row = KernelRow(name=name, n=n, c=c, dtype=dtype, us=us, call_us=call_us, bytes=moved, floor_us=floor)
        times.append(row)
    return times


def eager_loss(logits: Tensor, target: Tensor, old: Tensor, ref: Tensor) -> Tensor:
    """Compute the loss of MPT-KL, a scalar, by plain PyTorch operations in the logits' own type."""
    num_old = old.shape[1]
    bias = torch.zeros(logits.shape[1], dtype=logits.dtype, device=logits.device)
    bias[num_old:] = K
    loss = F.cross_entropy(logits + bias, target)
    for student, teacher in ((logits[:, :num_old], old), (logits, ref)):
        weight = ALPHA + BETA * (teacher.argmax(dim=1) == target).to(logits.dtype)
        log_q = F.log_softmax(student / TAU, dim=1)
        q_teacher = F.softmax(teacher / TAU, dim=1)
        loss = loss + (weight * F.kl_div(log_q, q_teacher, reduction="none").sum(dim=1)).mean()
    return loss


def _called(call: Call, given: Inputs) -> Tensor:
    return call(*given)


def _by_autograd(loss: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> Call:
    """Return a function that computes the gradient of a loss in the logits by autograd."""

    def call(logits: Tensor, target: Tensor, old: Tensor, ref: Tensor) -> Tensor:
        (grad,) = torch.autograd.grad(loss(logits, target, old, ref), logits)
        return grad

    return call


def _fused_gradient(logits: Tensor, target: Tensor, old: Tensor, ref: Tensor) -> Tensor:
    """Compute the gradient of the same loss by the fused kernel."""
    return mpt_loss(
        logits, target, old, ref, num_old=old.shape[1], k=K, alpha=ALPHA, beta=BETA, tau=TAU,
        normalizer=logits.shape[0],
    ).grad  # fmt: skip


def _random_inputs(n: int, c: int, dtype: torch.dtype, device: torch.device, seed: int) -> Inputs:
    """Draw normal logits with a standard deviation of 3, and labels; half of the classes are old."""
    generator = torch.Generator(device).manual_seed(seed)

    def logits(width: int) -> Tensor:
        return (3 * torch.randn(n, width, generator=generator, device=device)).to(dtype)

    target = torch.randint(0, c, (n,), generator=generator, device=device)
    return logits(c).requires_grad_(), target, logits(c // 2), logits(c)


def _refuse_wrong_gradient(inputs: Inputs) -> None:
    """Raise RuntimeError if the fused gradient of up to 128 rows is not that of eager float64."""
    logits, target, old, ref = (x[:128].detach() for x in inputs)
    exact = logits.double().requires_grad_()
    truth = _by_autograd(eager_loss)(exact, target, old.double(), ref.double())
    fused = _fused_gradient(logits, target, old, ref).double()
    error = float((fused - truth).norm() / truth.norm())
    allowed = 1e-5 if inputs[0].dtype == torch.float32 else 1e-2
    if not error <= allowed:
        raise RuntimeError(f"the fused gradient is off by {error:.1e} of its length; it is not worth timing")


def _call_us(call: Call, inputs: Inputs, device: torch.device, repeats: int) -> float:
    """Time single calls, the host's work included; return the median in microseconds."""
    for _ in range(3):
        call(*inputs)
    return 1e6 * statistics.median(_seconds(lambda: call(*inputs), device) for _ in range(repeats))


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    """Time some work, from an idle GPU to an idle GPU, in seconds."""
    torch.cuda.synchronize(device)
    begin = time.perf_counter()
    work()
    torch.cuda.synchronize(device)
    return time.perf_counter() - begin
