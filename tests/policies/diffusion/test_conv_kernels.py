"""Convolutions over few steps are torch's.

With TRITON_INTERPRET=1 the same tests run on a CPU, in Triton's interpreter.
"""

import pytest
import torch
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from torch import nn

pytestmark = [pytest.mark.gpu, pytest.mark.kernels]

# Tensor cores round inputs to 10 bits, or 7 in bfloat16.
TOLERANCES = {torch.float32: 1e-2, torch.float16: 1e-2, torch.bfloat16: 5e-2}
# A smaller example is not worth compiling hundreds of kernels for.
unshrunk = settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])


@unshrunk
@given(
    data=st.data(),
    number=st.sampled_from([1, 2, 3, 4]),
    steps=st.sampled_from([1, 2, 4, 7, 16]),
    channels=st.sampled_from([(32, 16), (96, 32), (128, 48), (256, 16)]),
    kernel=st.sampled_from([1, 2, 3, 5]),
    stride=st.sampled_from([1, 2]),
    dtype=st.sampled_from(list(TOLERANCES)),
)
def test_values_are_torchs_in_any_layout(
    kernel_device, any_layout, data, number, steps, channels, kernel, stride, dtype
):
    from manyhands.policies.diffusion.conv_kernels import can_convolve, convolve_few

    # The interpreter takes the bits of bfloat16 for integers.
    assume(kernel_device.type == "cuda" or dtype != torch.bfloat16)
    assume(steps + 2 * (kernel // 2) >= kernel)
    torch.manual_seed(steps)
    conv = nn.Conv1d(*channels, kernel, stride, padding=kernel // 2).to(kernel_device, dtype)
    hidden = torch.randn(number, steps, channels[0]).to(kernel_device, dtype)
    assert can_convolve(hidden, conv)
    expected = torch.nn.functional.conv1d(
        hidden.double().mT, conv.weight.double(), conv.bias.double(), stride, kernel // 2
    ).mT
    found = convolve_few(data.draw(any_layout(hidden)), conv)
    assert found.dtype == dtype and found.is_contiguous()
    tolerance = TOLERANCES[dtype]
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("shape", "channels"), [((5, 16, 32), (32, 16)), ((1, 4, 2), (2, 16)), ((1, 4, 32), (32, 2))]
)
def test_other_sizes_are_left_to_torch(kernel_device, shape, channels):
    from manyhands.policies.diffusion.conv_kernels import can_convolve

    conv = nn.Conv1d(*channels, 3, padding=1).to(kernel_device)
    assert not can_convolve(torch.zeros(shape, device=kernel_device), conv)
