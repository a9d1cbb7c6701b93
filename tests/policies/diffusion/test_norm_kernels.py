"""The kernel after a convolution computes what group norm and Mish do, for any input.

With TRITON_INTERPRET=1 the same tests run on a CPU, in Triton's interpreter.
"""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from manyhands.policies.diffusion.residual_block import group_norm

pytestmark = [pytest.mark.gpu, pytest.mark.kernels]

TOLERANCES = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}
# A smaller example is not worth compiling hundreds of kernels for.
unshrunk = settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])


def norm_of(num_groups: int, num_channels: int, device: torch.device) -> nn.GroupNorm:
    torch.manual_seed(num_channels)
    norm = nn.GroupNorm(num_groups, num_channels)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return norm.to(device)


def expected_of(hidden: Tensor, norm: nn.GroupNorm, modulation: dict[str, Tensor]) -> Tensor:
    """What the other path computes in double precision; torch refuses groups of one value."""
    output = F.mish(group_norm(hidden.double(), norm))
    if "scale" in modulation:
        output = output * modulation["scale"].double()[:, None]
    if "shift" in modulation:
        output = output + modulation["shift"].double()[:, None]
    return output + modulation["shortcut"].double().sum(0) if "shortcut" in modulation else output


@unshrunk
@given(
    data=st.data(),
    number=st.sampled_from([0, 1, 2, 5]),
    num_terms=st.sampled_from([1, 2, 3]),
    steps=st.sampled_from([1, 2, 3, 4, 7, 16]),
    groups=st.sampled_from([(1, 1), (1, 3), (2, 4), (3, 5), (8, 64)]),
    dtype=st.sampled_from(list(TOLERANCES)),
    given_names=st.sampled_from([(), ("shift",), ("scale", "shift"), ("shortcut",)]),
)
def test_values_are_those_of_the_other_path_in_any_layout(
    kernel_device, any_layout, data, number, num_terms, steps, groups, dtype, given_names
):
    from manyhands.policies.diffusion.norm_kernels import norm_mish

    num_groups, size = groups
    channels = num_groups * size
    generator = torch.Generator().manual_seed(steps)
    terms = 3 * torch.randn(num_terms, number, steps, channels, generator=generator) + 1
    values = {
        "scale": torch.randn(number, 2 * channels, generator=generator)[:, channels:],
        "shift": torch.randn(number, channels, generator=generator),
        "shortcut": torch.randn(2, number, steps, channels, generator=generator),
    }
    modulation = {name: values[name].to(kernel_device, dtype) for name in given_names}
    terms = terms.to(kernel_device, dtype)
    norm = norm_of(num_groups, channels, kernel_device)
    expected = expected_of(terms.double().sum(0), norm, modulation)
    found = norm_mish(data.draw(any_layout(terms)), norm, **modulation)
    assert found.dtype == dtype and found.is_contiguous()
    tolerance = TOLERANCES[dtype]
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("value", [-1e4, -100.0, -1.0, 0.0, 1.0, 19.9, 20.1, 100.0, 1e4])
def test_mish_is_torchs_for_large_and_small_values(kernel_device, value):
    from manyhands.policies.diffusion.norm_kernels import norm_mish

    # A group of equal values is normalized to the bias.
    norm = nn.GroupNorm(1, 16).to(kernel_device)
    nn.init.constant_(norm.bias, value)
    found = norm_mish(torch.ones(1, 1, 4, 16, device=kernel_device), norm)
    torch.testing.assert_close(found, F.mish(torch.full_like(found, value)))


def test_a_value_that_is_not_a_number_makes_its_group_so_and_no_other(kernel_device):
    from manyhands.policies.diffusion.norm_kernels import norm_mish

    hidden = torch.ones(2, 3, 8, device=kernel_device)
    hidden[1, 2, 5] = float("nan")
    found = norm_mish(hidden[None], nn.GroupNorm(2, 8).to(kernel_device)).isnan()
    assert found[1, :, 4:].all() and found.sum() == 12
