"""Inside `torch.compile(fullgraph=True)` every backend gives what it gives outside."""

import pytest
import torch
from torch import Tensor

from mpt_kernels import MPTLoss
from mpt_kernels.loss import Backend
from tests.forked import process_of
from tests.kernels.cases import INTERPRETED, Loss, random_case


@pytest.fixture(autouse=True)
def _one_graph(wide: bool) -> None:
    if wide and INTERPRETED:
        pytest.skip("the graph is that of the narrow kernel; compiling it takes longer than interpreting")


@pytest.mark.parametrize("distance", ["kl", None])
def test_the_function(loss: Loss, device: str, distance: str | None) -> None:
    case = random_case(5, 7, 4, device=device)

    def step(logits: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor], dict[str, Tensor]]:
        out = loss(logits, case.target, case.old_logits, case.ref_logits, num_old=4, k=2.0, distance=distance)
        return out.loss * 2, out.grad * 2, out.terms, out.correct

    # Without a code generator: what is tested is that the graph has no break and the right shapes and strides.
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for got, expected in zip(
        torch.utils._pytree.tree_leaves(compiled(case.logits)),
        torch.utils._pytree.tree_leaves(step(case.logits)),
        strict=True,
    ):
        assert torch.equal(got, expected)


def test_the_criterion(loss: Loss, device: str, backend: Backend) -> None:
    # In a process of its own: once a process has compiled a gradient, torch lets no child forked from it compute
    # gradients, and other tests fork such children. Triton's interpreter has such a process for all tests.
    if device != "cpu" or INTERPRETED:
        check_the_criterion(loss, device, backend)
        return
    child = process_of(check_the_criterion, loss, device, backend)
    child.join()
    assert child.exitcode == 0


def check_the_criterion(loss: Loss, device: str, backend: Backend) -> None:
    case = random_case(5, 7, 4, device=device)
    compiled = torch.compile(MPTLoss(num_old=4, k=1.0, backend=backend), fullgraph=True, backend="aot_eager")
    logits = case.logits.requires_grad_()
    compiled(logits, case.target, case.old_logits, case.ref_logits).loss.backward()

    plain = case.run(loss, k=1.0)
    torch.testing.assert_close(logits.grad, plain.grad, rtol=1e-5, atol=1e-8)
