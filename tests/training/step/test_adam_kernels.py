"""Steps and EMA by our kernel are those of torch's Adam in double precision, to rounding.

With TRITON_INTERPRET=1 the same tests run on a CPU, in Triton's interpreter.
"""

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import nn, optim

from manyhands.config.sections.optim import EmaConfig
from manyhands.training.step.ema import Ema, NoEma
from manyhands.training.step.optimizer import make_capturable

pytestmark = [pytest.mark.gpu, pytest.mark.kernels]

SHAPES = [(), (1,), (511,), (512,), (513,), (70, 90), (8, 16, 3, 3)]
ANY_SHAPE = st.sampled_from(
    [
        *[(), (1,), (0,), (3, 0), (511,), (512,), (513,), (1, 1, 1), (37, 29), (4, 1, 300)],
        *[(8, 3, 7, 7), (16, 8, 1, 1), (1, 5, 3, 3), (6, 1, 3, 3), (2, 3, 1, 5)],
    ]
)
KINDS = st.sampled_from([(optim.Adam, 0.0), (optim.Adam, 0.1), (optim.AdamW, 0.1)])
unshrunk = settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])


@pytest.fixture(scope="module", autouse=True)
def device(kernel_device):
    """The device; a CPU has no page-locked memory and no streams."""
    if kernel_device.type == "cuda":
        yield kernel_device
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
        patch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        yield kernel_device


def built(kind, groups, **options):
    """An optimizer as the trainer has it: fused, with its learning rates on the device."""
    optimizer = make_capturable(kind(groups, lr=1e-2, fused=True, **options))
    for group in optimizer.param_groups:
        weights = group["params"]
        if weights and not isinstance(group["lr"], torch.Tensor):
            group["lr"] = torch.tensor(group["lr"], device=weights[0].device)
    return optimizer


def started(kind, device, **options):
    """An optimizer of two groups after a step, with gradients for the next."""
    generator = torch.Generator(device).manual_seed(3)

    def drawn(shape):
        return torch.randn(shape, generator=generator, device=device)

    weights = [nn.Parameter(drawn(shape)) for shape in SHAPES]
    last = weights[-1].detach().contiguous(memory_format=torch.channels_last)
    weights[-1] = nn.Parameter(last)
    groups = [{"params": weights[:3], "lr": 3e-3}, {"params": []}, {"params": weights[3:]}]
    optimizer = built(kind, groups, **options)
    for _ in range(2):
        for weight in weights:
            weight.grad = torch.empty_like(weight).copy_(drawn(weight.shape))
        if not optimizer.state:
            optimizer.step()
    return optimizer, weights


def tell(optimizer, scale, is_bad):
    device = next(iter(optimizer.state)).device
    optimizer.grad_scale = None if scale is None else torch.tensor(scale, device=device)
    optimizer.found_inf = torch.tensor(float(is_bad), device=device)


def all_tensors(optimizer, weights):
    return [
        tensor.clone()
        for weight in weights
        for tensor in (weight.detach(), *optimizer.state[weight].values())
    ]


def in_double_precision(optimizer, scale):
    """A copy of an optimizer on the host, and its weights, with gradients scaled already."""
    plain = {"fused": False, "capturable": False}
    groups, copies = [], []
    for group in optimizer.param_groups:
        held = [nn.Parameter(weight.detach().cpu().double()) for weight in group["params"]]
        groups.append({**group, **plain, "params": held, "lr": float(group["lr"])})
        copies += held
    exact = type(optimizer)(groups)
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for weight, copy in zip(weights, copies, strict=True):
        copy.grad = weight.grad.cpu().double() / scale
        state = {name: value.cpu().double() for name, value in optimizer.state[weight].items()}
        exact.state[copy] = state
    return exact, copies


def assert_steps_are_exact(optimizer, weights, scale, num_steps, has_ema=True):
    from manyhands.training.step.adam_kernels import FusedAdamSteps

    exact, expected = in_double_precision(optimizer, scale or 1.0)
    ema = Ema(EmaConfig(decay=0.75), nn.ParameterList(weights)) if has_ema else NoEma()
    averages = [average.cpu().double() for average in ema.averages]
    steps = FusedAdamSteps(optimizer, ema)
    tell(optimizer, scale, is_bad=False)
    for number in range(num_steps):
        ema.prepare(number + 2)  # The first update of a run copies the weights.
        steps()
        exact.step()
        for average, weight in zip(averages, expected, strict=has_ema):
            average.lerp_(weight.detach(), 0.25)
    found = [*all_tensors(optimizer, weights), *ema.averages]
    wanted = [*all_tensors(exact, expected), *averages]
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.cpu().double(), other, rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("has_ema", [True, False])
@pytest.mark.parametrize("scale", [None, 3.0])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (optim.AdamW, {"weight_decay": 0.1}),
        (optim.Adam, {"weight_decay": 0.1, "betas": (0.95, 0.999)}),
        (optim.Adam, {"eps": 1e-3}),
    ],
    ids=["decoupled", "decay", "no decay"],
)
def test_steps_are_those_of_double_precision(device, kind, options, scale, has_ema):
    optimizer, weights = started(kind, device, **options)
    assert_steps_are_exact(optimizer, weights, scale, 5, has_ema)


@unshrunk
@given(
    data=st.data(),
    shapes=st.lists(st.lists(ANY_SHAPE, max_size=3), min_size=1, max_size=3),
    kind=KINDS,
    scale=st.none() | st.floats(0.5, 1e4),
)
def test_steps_are_exact_for_weights_of_any_shape_order_and_group(
    device, any_layout, data, shapes, kind, scale
):
    generator = torch.Generator().manual_seed(0)
    groups, weights = [], []
    for number, group in enumerate(shapes):
        values = [torch.randn(shape, generator=generator).to(device) for shape in group]
        held = [nn.Parameter(data.draw(any_layout(each, is_dense=True))) for each in values]
        groups.append({"params": held, "lr": 10 ** -(2.0 + number)})
        weights += held
    if not weights:
        return
    optimizer = built(kind[0], groups, weight_decay=kind[1])
    for weight in weights:
        drawn = torch.randn(weight.shape, generator=generator).to(device)
        weight.grad = torch.empty_like(weight).copy_(drawn)
    optimizer.step()
    for number, weight in enumerate(weights):
        optimizer.state[weight]["step"] += 3 * number  # As after a change of what is trained.
    assert_steps_are_exact(optimizer, weights, scale, 2)


def remember(optimizer, weights) -> None:
    """Give an optimizer the state of its first step, which torch refuses in some layouts."""
    for weight in weights:
        moments = {name: torch.zeros_like(weight) for name in ("exp_avg", "exp_avg_sq")}
        steps = torch.zeros((), dtype=torch.float32, device=weight.device)
        optimizer.state[weight] = {"step": steps, **moments}


@unshrunk
@given(data=st.data(), shape=ANY_SHAPE, is_gradient=st.booleans())
def test_a_layout_that_the_kernel_cannot_walk_through_is_rejected(
    device, any_layout, data, shape, is_gradient
):
    """A weight and gradient in any layout: the step is exact, or an error says why not."""
    values = torch.linspace(-1, 1, max(1, torch.Size(shape).numel()), device=device)
    values = values[: torch.Size(shape).numel()].view(shape)
    weight = nn.Parameter(values.clone() if is_gradient else data.draw(any_layout(values)))
    weight.grad = data.draw(any_layout(values)) if is_gradient else weight.detach() * 2
    if not is_gradient:
        # Autograd may keep the strides of a weight with gaps in it.
        weight.grad = torch.empty_strided(
            shape, weight.stride(), device=device, dtype=weight.dtype
        ).copy_(values)
    optimizer = built(optim.AdamW, [weight])
    remember(optimizer, [weight])
    try:
        assert_steps_are_exact(optimizer, [weight], None, 1)
    except RuntimeError as error:
        assert "another memory layout" in str(error)
        changed = weight.grad if is_gradient else weight
        assert not changed.is_contiguous()


def test_gradients_that_are_not_finite_change_nothing(device):
    from manyhands.training.step.adam_kernels import FusedAdamSteps

    optimizer, weights = started(optim.AdamW, device)
    ema = Ema(EmaConfig(decay=0.75), nn.ParameterList(weights))
    for average in ema.averages:
        average.add_(1.0)
    before = [*all_tensors(optimizer, weights), *(each.clone() for each in ema.averages)]
    weights[3].grad.fill_(float("nan"))
    tell(optimizer, None, is_bad=True)
    ema.prepare(2)
    FusedAdamSteps(optimizer, ema)()
    assert all(map(torch.equal, before, [*all_tensors(optimizer, weights), *ema.averages]))


def test_a_captured_step_finds_its_own_gradients(device, is_memory_checked):
    if device.type != "cuda" or is_memory_checked:
        pytest.skip("captures a CUDA graph, which needs torch's caching allocator")
    from manyhands.training.step.adam_kernels import FusedAdamSteps

    optimizer, weights = started(optim.AdamW, device)
    steps = FusedAdamSteps(optimizer, NoEma())
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


def test_an_average_of_constant_weights_stays_exact(device):
    from manyhands.training.step.adam_kernels import FusedAdamSteps

    optimizer, weights = started(optim.Adam, device)
    ema = Ema(EmaConfig(decay=0.9999), nn.ParameterList(weights))
    for group in optimizer.param_groups:
        group["lr"] = torch.zeros((), device=device)
    steps = FusedAdamSteps(optimizer, ema)
    tell(optimizer, None, is_bad=False)
    for step in range(2, 12):
        ema.prepare(step)
        steps()
    assert all(map(torch.equal, ema.averages, weights))


def test_a_gradient_in_another_order_is_rejected(device):
    from manyhands.training.step.adam_kernels import FusedAdamSteps

    optimizer, weights = started(optim.AdamW, device)
    steps = FusedAdamSteps(optimizer, NoEma())
    tell(optimizer, None, is_bad=False)
    weights[-1].grad = weights[-1].grad.contiguous()
    with pytest.raises(RuntimeError, match="another memory layout"):
        steps()
    weights[-1].grad = None
    with pytest.raises(RuntimeError, match="has no gradient"):
        steps()


def test_an_optimizer_state_in_another_order_is_rejected(device):
    from manyhands.training.step.adam_kernels import FusedAdamSteps

    optimizer, weights = started(optim.AdamW, device)
    state = optimizer.state[weights[-1]]
    state["exp_avg_sq"] = state["exp_avg_sq"].contiguous()
    tell(optimizer, None, is_bad=False)
    with pytest.raises(RuntimeError, match="another memory layout"):
        FusedAdamSteps(optimizer, NoEma())()


def test_gaps_in_memory_are_rejected_even_if_all_tensors_have_them(device):
    from manyhands.training.step.adam_kernels import FusedAdamSteps

    def gapped():
        return torch.ones(4, 8, device=device)[:, :5]

    weight = nn.Parameter(gapped())
    weight.grad = gapped()
    optimizer = built(optim.AdamW, [weight])
    remember(optimizer, [weight])
    optimizer.state[weight] |= {"exp_avg": gapped(), "exp_avg_sq": gapped()}
    tell(optimizer, None, is_bad=False)
    with pytest.raises(RuntimeError, match="another memory layout"):
        FusedAdamSteps(optimizer, NoEma())()
