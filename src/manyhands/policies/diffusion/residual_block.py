"""Residual blocks of convolutions over time, modulated (FiLM) by a condition.

Values are (samples, steps, channels). Predictions on a GPU have kernels of their own, which round
otherwise: for convolutions over few steps, and for all that follows a convolution.
"""

from functools import cache
from subprocess import CalledProcessError
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands.config.policies.diffusion import DiffusionConfig


class ConvBlock(nn.Module):
    """A convolution over time, a group norm and Mish."""

    def __init__(self, num_inputs: int, num_outputs: int, kernel: int, num_groups: int) -> None:
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv1d(num_inputs, num_outputs, kernel, padding=kernel // 2),
            nn.GroupNorm(num_groups, num_outputs),
            nn.Mish(),
        )

    def forward(
        self,
        hidden: Tensor,
        scale: Tensor | None = None,
        shift: Tensor | None = None,
        shortcut: Tensor | None = None,
    ) -> Tensor:
        """Channels over time, then scaled and shifted (samples, channels), then added to."""
        # The shortcut is a sum (terms, samples, steps, channels).
        conv, norm, activation = self.block
        assert isinstance(norm, nn.GroupNorm)
        terms = convolution_terms(hidden, conv)
        if has_kernels(hidden):
            from manyhands.policies.diffusion.norm_kernels import can_normalize, norm_mish

            if can_normalize(terms, norm):
                return norm_mish(terms, norm, scale, shift, shortcut)
        output: Tensor = activation(group_norm(total(terms), norm))
        if shift is not None:
            output = (
                output + shift[:, None]
                if scale is None
                else torch.addcmul(shift[:, None], output, scale[:, None])
            )
        return output if shortcut is None else output + total(shortcut)


class ResidualBlock(nn.Module):
    """Two convolution blocks around a shortcut, modulated by the condition between them."""

    lerobot_class: ClassVar[str] = "DiffusionConditionalResidualBlock1d"

    def __init__(
        self, num_inputs: int, num_outputs: int, condition_dim: int, config: DiffusionConfig
    ) -> None:
        super().__init__()
        self._has_scale = config.use_film_scale_modulation
        kernel, num_groups = config.kernel_size, config.n_groups
        num_modulations = 2 * num_outputs if self._has_scale else num_outputs
        self.conv1 = ConvBlock(num_inputs, num_outputs, kernel, num_groups)
        # The activation only holds its index: one for all blocks runs before them.
        self.cond_encoder = nn.Sequential(nn.Mish(), nn.Linear(condition_dim, num_modulations))
        self.conv2 = ConvBlock(num_outputs, num_outputs, kernel, num_groups)
        self.residual_conv = (
            nn.Conv1d(num_inputs, num_outputs, 1) if num_inputs != num_outputs else nn.Identity()
        )

    @property
    def film(self) -> nn.Linear:
        """From the condition, which has gone through Mish already, to the modulation."""
        linear = self.cond_encoder[1]
        assert isinstance(linear, nn.Linear)
        return linear

    def forward(self, hidden: Tensor, condition: Tensor) -> Tensor:
        """Channels over time (samples, steps, channels) under a condition after Mish."""
        return self.modulated(hidden, self.film(condition))

    def modulated(self, hidden: Tensor, modulation: Tensor) -> Tensor:
        """Channels over time with the modulation (samples, channels) of their condition."""
        scale, shift = modulation.chunk(2, dim=-1) if self._has_scale else (None, modulation)
        inner = self.conv1(hidden, scale, shift)
        shortcut = convolution_terms(hidden, self.residual_conv)
        output: Tensor = self.conv2(inner, shortcut=shortcut)
        return output


def convolve(hidden: Tensor, conv: nn.Module) -> Tensor:
    """A convolution over the steps of (samples, steps, channels)."""
    return total(convolution_terms(hidden, conv))


def total(terms: Tensor) -> Tensor:
    """The sum over the first dimension."""
    return terms.squeeze(0) if len(terms) == 1 else terms.sum(0)


def convolution_terms(hidden: Tensor, conv: nn.Module) -> Tensor:
    """A convolution as a sum (terms, samples, steps, channels), which a kernel leaves to others."""
    if isinstance(conv, nn.Identity):
        return hidden.unsqueeze(0)
    assert isinstance(conv, nn.Conv1d | nn.ConvTranspose1d)
    if has_kernels(hidden):
        from manyhands.policies.diffusion.conv_kernels import can_convolve, convolve_few

        if can_convolve(hidden, conv):
            return convolve_few(hidden, conv)
    return torch_convolution(hidden, conv).unsqueeze(0)


def torch_convolution(hidden: Tensor, conv: nn.Conv1d | nn.ConvTranspose1d) -> Tensor:
    """A convolution by torch's kernels."""
    if isinstance(conv, nn.Conv1d) and conv.kernel_size == (1,):
        return F.linear(hidden, conv.weight.squeeze(-1), conv.bias)
    # As an image one pixel high: torch transposes the values of a 1D convolution.
    image, weight = hidden.transpose(1, 2).unsqueeze(2), conv.weight.unsqueeze(2)
    kind = F.conv2d if isinstance(conv, nn.Conv1d) else F.conv_transpose2d
    assert not isinstance(conv.padding, str)
    output = kind(image, weight, conv.bias, (1, *conv.stride), (0, *conv.padding))
    return output.squeeze(2).transpose(1, 2)


def group_norm(hidden: Tensor, norm: nn.Module) -> Tensor:
    """The group norm of (samples, steps, channels), never in less than single precision."""
    assert isinstance(norm, nn.GroupNorm)
    kind = torch.promote_types(hidden.dtype, torch.float32)
    weight, bias = (each.to(kind).view(norm.num_groups, -1) for each in (norm.weight, norm.bias))
    grouped = hidden.to(kind).view(*hidden.shape[:-1], *weight.shape)
    var, mean = torch.var_mean(grouped, dim=(1, 3), correction=0, keepdim=True)
    scale = weight * torch.rsqrt(var + norm.eps)
    return torch.addcmul(bias, grouped - mean, scale).flatten(-2)


def has_kernels(hidden: Tensor) -> bool:
    """Whether Triton kernels apply: to predictions on a GPU, with indices of 32 bits."""
    if torch.compiler.is_compiling() or torch.is_grad_enabled() or not hidden.is_cuda:
        return False
    is_single = hidden.dtype != torch.float64 and hidden.numel() < 2**31
    return is_single and can_run_kernels(hidden.device)


@cache
def can_run_kernels(device: torch.device) -> bool:
    """Whether Triton works: it needs a C compiler, which few robots have."""
    try:
        from manyhands.policies.diffusion.norm_kernels import norm_mish

        norm_mish(torch.zeros(1, 1, 1, 16, device=device), nn.GroupNorm(1, 16, device=device))
    except (ImportError, OSError, RuntimeError, CalledProcessError):
        return False
    return True
