"""The fused loss on a GPU: all backend-neutral tests once more, and what only a GPU can show."""

import pytest
import torch
from torch import Tensor

from mpt_kernels import MPTLoss, backend_for, mpt_loss, triton_backend
from tests.gpu.card import DEVICE, needs_card, skip_without_card
from tests.kernels.cases import Loss, random_case, relative_error
from tests.kernels.conftest import loss, wide  # noqa: F401
from tests.kernels.test_accuracy import *  # noqa: F403
from tests.kernels.test_compiled import *  # noqa: F403
from tests.kernels.test_edges import *  # noqa: F403
from tests.kernels.test_golden import *  # noqa: F403
from tests.kernels.test_mixture import *  # noqa: F403
from tests.kernels.test_pieces import *  # noqa: F403
from tests.kernels.test_sums import *  # noqa: F403

skip_without_card()
pytestmark = pytest.mark.gpu
NARROW = triton_backend.NARROW


@pytest.fixture(scope="session")
def device() -> str:
    return DEVICE.type


@pytest.fixture(scope="session")
def backend() -> str:
    return "triton"


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _row_kernel_of_each_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sizes choose their row kernel in tests without `loss`, which one of both was asked of before."""
    if "loss" not in request.fixturenames:
        monkeypatch.setattr(triton_backend, "NARROW", NARROW)


@needs_card
def test_cuda_tensors_take_triton(device: str) -> None:
    assert backend_for(torch.zeros(1, 2, device=device)) == "triton"
    assert backend_for(torch.zeros(1, 2, device=device, dtype=torch.float64)) == "reference"


@needs_card
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("n", [0, 7, 128])
def test_the_host_never_waits(loss: Loss, device: str, n: int) -> None:  # noqa: F811
    case = random_case(n, 100, 50, device=device)
    normalizer = torch.tensor(float(n), device=device)
    case.run(loss)  # compiles
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for settings in ({}, {"normalizer": n}, {"normalizer": normalizer, "grad_scale": normalizer}):
            out = case.run(loss, **settings)
            case.logits.detach().requires_grad_().backward(out.grad)
        MPTLoss(num_old=50)(case.logits, case.target, case.old_logits, case.ref_logits)
        case.to(torch.float64).run(mpt_loss, backend="reference")
    finally:
        torch.cuda.set_sync_debug_mode("default")


@needs_card
def test_in_a_captured_graph_it_follows_new_inputs(loss: Loss, device: str) -> None:  # noqa: F811
    case = random_case(128, 1000, 500, device=device, dtype=torch.bfloat16)
    normalizer = torch.tensor(128.0, device=device)
    case.run(loss, normalizer=normalizer)  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = case.run(loss, normalizer=normalizer)

    other = random_case(128, 1000, 500, device=device, dtype=torch.bfloat16)
    for mine, its in zip(case[:4], other[:4], strict=True):
        assert isinstance(mine, Tensor)
        mine.copy_(its)
    normalizer.fill_(64.0)
    graph.replay()

    expected = other.run(loss, normalizer=normalizer)
    assert torch.equal(out.grad, expected.grad)
    assert torch.equal(out.loss, expected.loss)


@needs_card
@pytest.mark.parametrize("n", [1, 128, 512])
def test_streams_and_graphs_do_not_meet_in_their_sums(loss: Loss, device: str, n: int) -> None:  # noqa: F811
    case = random_case(n, 100, 50, device=device)
    expected = case.run(loss, normalizer=n).loss
    graphs = []
    for _ in range(2):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            graphs.append((graph, case.run(loss, normalizer=n).loss))
    streams = [torch.cuda.Stream() for _ in range(4)]
    torch.cuda.synchronize()
    losses = []
    for _ in range(200):
        for i, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                if i < 2:
                    losses.append(case.run(loss, normalizer=n).loss)
                else:
                    graph, out = graphs[i - 2]
                    graph.replay()
                    losses.append(out.clone())
    torch.cuda.synchronize()
    assert torch.equal(torch.stack(losses), expected.expand(len(losses)))


@needs_card
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("n", "c"), [(128, 100), (4096, 100), (4096, 1000), (257, 21_841)])
def test_sizes_that_fill_the_device(device: str, n: int, c: int, dtype: torch.dtype) -> None:
    case = random_case(n, c, c // 2, device=device, dtype=dtype)
    truth = case.to(torch.float64).run(mpt_loss, k=4.0, backend="reference")
    out = case.run(mpt_loss, k=4.0)
    again = case.run(mpt_loss, k=4.0)

    assert relative_error(out.grad, truth.grad) <= (5e-6 if dtype == torch.float32 else 4e-3)
    assert relative_error(out.loss, truth.loss) <= 5e-6
    assert {k: int(v) for k, v in out.correct.items()} == {k: int(v) for k, v in truth.correct.items()}
    assert torch.equal(out.grad, again.grad)
    assert torch.equal(out.loss, again.loss)


def test_every_element_of_the_gradient_is_written(loss: Loss, device: str) -> None:  # noqa: F811
    case = random_case(64, 1001, 333, device=device)
    expected = case.run(loss).grad
    for _ in range(3):
        poison = torch.full((64, 1001), torch.nan, device=device)
        del poison  # the allocator hands the same memory out again
        assert torch.equal(case.run(loss).grad, expected)


@needs_card
def test_compiled_whole_with_a_code_generator(device: str) -> None:
    case = random_case(128, 100, 50, device=device)
    layer = torch.nn.Linear(100, 100, device=device)
    criterion = MPTLoss(num_old=50, k=4.0)

    def step(features: Tensor) -> Tensor:
        out: Tensor = criterion(layer(features), case.target, case.old_logits, case.ref_logits).loss
        return out

    step(case.logits).backward()
    expected = [p.grad.clone() for p in layer.parameters() if p.grad is not None]
    layer.zero_grad()
    torch.compile(step, fullgraph=True)(case.logits).backward()
    for parameter, grad in zip(layer.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, grad, rtol=1e-3, atol=1e-5)
