"""Steps by our kernel are those of torch's Adam in double precision, to rounding."""

import pytest
import torch
from torch import nn, optim

from manyhands.training.optim import replayable

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]

SHAPES = [(), (1,), (511,), (512,), (513,), (700, 900), (8, 16, 3, 3)]


def made(kind, **settings):
    """An optimizer of two groups after a step, with gradients for the next."""
    generator = torch.Generator("cuda").manual_seed(3)

    def drawn(shape):
        return torch.randn(shape, generator=generator, device="cuda")

    weights = [nn.Parameter(drawn(shape)) for shape in SHAPES]
    last = weights[-1].detach().contiguous(memory_format=torch.channels_last)
    weights[-1] = nn.Parameter(last)
    groups = [{"params": weights[:3], "lr": 3e-3}, {"params": []}, {"params": weights[3:]}]
    optimizer = replayable(kind(groups, lr=1e-2, fused=True, **settings))
    for _ in range(2):
        for weight in weights:
            weight.grad = torch.empty_like(weight).copy_(drawn(weight.shape))
        if not optimizer.state:
            optimizer.step()
    return optimizer, weights


def tell(optimizer, scale, is_bad):
    optimizer.grad_scale = None if scale is None else torch.tensor(scale, device="cuda")
    optimizer.found_inf = torch.tensor(float(is_bad), device="cuda")


def all_tensors(optimizer, weights):
    return [
        tensor.clone()
        for weight in weights
        for tensor in (weight.detach(), *optimizer.state[weight].values())
    ]


@pytest.mark.parametrize("scale", [None, 3.0])
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (optim.AdamW, {"weight_decay": 0.1}),
        (optim.Adam, {"weight_decay": 0.1, "betas": (0.95, 0.999)}),
        (optim.Adam, {"eps": 1e-3}),
    ],
    ids=["decoupled", "decay", "no decay"],
)
def test_steps_are_those_of_double_precision(kind, settings, scale):
    from manyhands.training.adam_kernels import AdamSteps

    optimizer, weights = made(kind, **settings)
    exact, expected = in_double_precision(optimizer, scale or 1.0)
    steps = AdamSteps(optimizer)
    tell(optimizer, scale, is_bad=False)
    for _ in range(5):
        steps()
        exact.step()
    found, wanted = all_tensors(optimizer, weights), all_tensors(exact, expected)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.cpu().double(), other, rtol=2e-6, atol=2e-7)


def in_double_precision(optimizer, scale):
    """A copy of an optimizer on the host, and its weights, with gradients scaled already."""
    plain = {"fused": False, "capturable": False}
    groups, copies = [], []
    for group in optimizer.param_groups:
        held = [nn.Parameter(weight.detach().cpu().double()) for weight in group["params"]]
        groups.append({**group, **plain, "params": held, "lr": group["lr"].item()})
        copies += held
    exact = type(optimizer)(groups)
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for weight, copy in zip(weights, copies, strict=True):
        copy.grad = weight.grad.cpu().double() / scale
        state = {name: value.cpu().double() for name, value in optimizer.state[weight].items()}
        exact.state[copy] = state
    return exact, copies


def test_gradients_that_are_not_finite_change_nothing():
    from manyhands.training.adam_kernels import AdamSteps

    optimizer, weights = made(optim.AdamW)
    before = all_tensors(optimizer, weights)
    weights[3].grad.fill_(float("nan"))
    tell(optimizer, None, is_bad=True)
    AdamSteps(optimizer)()
    assert all(map(torch.equal, before, all_tensors(optimizer, weights)))


def test_a_recorded_step_finds_its_own_gradients():
    from manyhands.training.adam_kernels import AdamSteps

    optimizer, weights = made(optim.AdamW)
    steps = AdamSteps(optimizer)
    tell(optimizer, 2.0, is_bad=False)
    steps()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for weight in weights:
            weight.grad = weight.detach() * 1.0
        steps()
    for weight in weights:
        weight.grad = None
    before = [weight.detach().clone() for weight in weights]
    graph.replay()
    moved = [(weight - old).abs().max() for weight, old in zip(weights, before, strict=True)]
    assert torch.stack(moved).min() > 1e-4


def test_a_gradient_in_another_order_is_refused():
    from manyhands.training.adam_kernels import AdamSteps

    optimizer, weights = made(optim.AdamW)
    steps = AdamSteps(optimizer)
    tell(optimizer, None, is_bad=False)
    weights[-1].grad = weights[-1].grad.contiguous()
    with pytest.raises(RuntimeError, match="laid out otherwise"):
        steps()
    weights[-1].grad = None
    with pytest.raises(RuntimeError, match="has no gradient"):
        steps()
