"""Convolutions over few steps are torch's.

With TRITON_INTERPRET=1 the same tests run on a CPU, in Triton's interpreter.
"""

import pytest
import torch
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from torch import nn

pytestmark = [pytest.mark.gpu, pytest.mark.kernels]

# Tensor cores round inputs to 10 bits.
TOLERANCE = 1e-2
# A smaller example is not worth compiling hundreds of kernels for.
unshrunk = settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])


@unshrunk
@given(
    data=st.data(),
    number=st.sampled_from([1, 2, 3, 4]),
    steps=st.sampled_from([1, 2, 4, 7, 16]),
    channels=st.sampled_from([(2, 16), (32, 2), (96, 32), (128, 48), (300, 16), (768, 24)]),
    kernel=st.sampled_from([1, 2, 3, 4, 5]),
    stride=st.sampled_from([1, 2]),
    kind=st.sampled_from([nn.Conv1d, nn.ConvTranspose1d]),
)
def test_values_are_torchs_in_any_layout(
    kernel_device, any_layout, data, number, steps, channels, kernel, stride, kind
):
    from manyhands.policies.diffusion.conv_kernels import can_convolve, convolve_few

    padding = kernel // 2 if kind is nn.Conv1d else (kernel - 1) // 2
    assume(steps + 2 * padding >= kernel)
    torch.manual_seed(steps)
    conv = kind(*channels, kernel, stride, padding=padding)
    hidden = torch.randn(number, steps, channels[0])
    expected = conv.double()(hidden.double().mT).mT
    assume(0 < number * expected.shape[1] <= 64)
    conv, hidden = conv.float().to(kernel_device), hidden.to(kernel_device)
    # As the U-Net holds its weights, or as torch does.
    if data.draw(st.booleans()):
        conv.weight.data = conv.weight.data.mT.contiguous().mT
    assert can_convolve(hidden, conv)
    terms = convolve_few(data.draw(any_layout(hidden)), conv)
    assert terms.is_contiguous()
    found = terms.sum(0).double().cpu()
    torch.testing.assert_close(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_many_inputs_are_shared_by_thread_blocks(kernel_device):
    from manyhands.policies.diffusion.conv_kernels import convolve_few

    conv = nn.Conv1d(1024, 16, 3, padding=1).to(kernel_device)
    hidden = torch.randn(1, 4, 1024, device=kernel_device)
    terms = convolve_few(hidden, conv)
    assert terms.shape == (12, 1, 4, 16)
    expected = conv(hidden.mT).mT
    torch.testing.assert_close(terms.sum(0), expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("shape", "dtype"), [((5, 16, 32), torch.float32), ((1, 4, 32), torch.bfloat16)]
)
def test_other_inputs_are_left_to_torch(kernel_device, shape, dtype):
    from manyhands.policies.diffusion.conv_kernels import can_convolve

    conv = nn.Conv1d(32, 16, 3, padding=1).to(kernel_device, dtype)
    assert not can_convolve(torch.zeros(shape, device=kernel_device, dtype=dtype), conv)
