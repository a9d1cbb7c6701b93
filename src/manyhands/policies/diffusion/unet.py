"""A U-Net over time that predicts the noise, or the clean actions, from noisy actions.

Every residual block is modulated (FiLM) by the observation and the diffusion timestep.
Values are held as (samples, steps, channels): the channels of a step are contiguous in memory, as
convolutions are fastest.
"""

import math
from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhands.config.policies.diffusion import FINAL_GROUPS, DiffusionConfig
from manyhands.policies.activation_checkpointing import checkpointed
from manyhands.policies.diffusion.residual_block import ConvBlock, ResidualBlock, convolve
from manyhands.policies.diffusion.sampler import Denoise

_LONGEST_WAVE = 10000.0


class UNet(nn.Module):
    """Levels of residual blocks, down to half the steps each and up again."""

    step_codes: Tensor

    def __init__(self, config: DiffusionConfig, action_dim: int, observation_dim: int) -> None:
        super().__init__()
        code_dim = config.diffusion_step_embed_dim
        dims, last = config.down_dims, config.down_dims[-1]
        self._recompute = config.gradient_checkpointing

        def block(num_inputs: int, num_outputs: int) -> ResidualBlock:
            return ResidualBlock(num_inputs, num_outputs, code_dim + observation_dim, config)

        def level(num_inputs: int, num_outputs: int, resample: nn.Module) -> nn.ModuleList:
            blocks = [block(num_inputs, num_outputs), block(num_outputs, num_outputs)]
            return nn.ModuleList([*blocks, resample])

        codes = wave_codes(config.num_train_timesteps, code_dim)
        self.register_buffer("step_codes", codes, persistent=False)
        self.diffusion_step_encoder = nn.Sequential(
            # In LeRobot the codes are made here; this network looks them up.
            nn.Identity(),
            nn.Linear(code_dim, 4 * code_dim),
            nn.Mish(),
            nn.Linear(4 * code_dim, code_dim),
        )
        halving = [nn.Conv1d(dim, dim, 3, stride=2, padding=1) for dim in dims[:-1]]
        sizes = zip((action_dim, *dims[:-1]), dims, [*halving, nn.Identity()], strict=True)
        self.down_modules = nn.ModuleList(level(*each) for each in sizes)
        self.mid_modules = nn.ModuleList(block(last, last) for _ in range(2))
        self.up_modules = nn.ModuleList(
            level(2 * upper, lower, nn.ConvTranspose1d(lower, lower, 4, stride=2, padding=1))
            for lower, upper in reversed([*pairwise(dims)])
        )
        self.final_conv = nn.Sequential(
            ConvBlock(dims[0], dims[0], config.kernel_size, FINAL_GROUPS),
            nn.Conv1d(dims[0], action_dim, 1),
        )
        for module in self.modules():
            if isinstance(module, nn.Conv1d | nn.ConvTranspose1d):
                # Held as inputs are, so that no transpose is needed.
                weight = module.weight.data.transpose(1, 2)
                module.weight.data = weight.contiguous().transpose(1, 2)

    def forward(self, noisy: Tensor, timesteps: Tensor, observed: Tensor) -> Tensor:
        """The output (samples, steps, action) for noisy actions and their observation."""
        condition = F.mish(torch.cat([self._step_code(timesteps), observed], dim=-1))

        def run(block: nn.Module, hidden: Tensor) -> Tensor:
            output: Tensor = (
                checkpointed(block, hidden, condition)
                if self._recompute
                else block(hidden, condition)
            )
            return output

        return self._traverse(noisy, run)

    def denoiser(self, timesteps: Tensor, observed: Tensor) -> Denoise:
        """The network for one observation and known timesteps, as a function of the actions."""
        # A modulation is a linear map of the step's code beside the observation: both halves are
        # computed here, once for all steps, and only added up at each.
        code, observed = F.mish(self._step_code(timesteps)), F.mish(observed)
        films = [block.film for block in self.modules() if isinstance(block, ResidualBlock)]
        halves = [_halves(film, code, observed) for film in films]
        by_step, by_observation = (torch.cat(half, dim=-1) for half in zip(*halves, strict=True))
        sizes = [film.out_features for film in films]

        def denoise(noisy: Tensor, number: int) -> Tensor:
            modulations = iter(torch.split(by_observation + by_step[number], sizes, dim=-1))

            def run(block: nn.Module, hidden: Tensor) -> Tensor:
                assert isinstance(block, ResidualBlock)
                return block.modulated(hidden, next(modulations))

            return self._traverse(noisy, run)

        return denoise

    def _step_code(self, timesteps: Tensor) -> Tensor:
        code: Tensor = self.diffusion_step_encoder(F.embedding(timesteps, self.step_codes))
        return code

    def _traverse(self, noisy: Tensor, run: Callable[[nn.Module, Tensor], Tensor]) -> Tensor:
        hidden, skipped = noisy, []
        for first, second, halve in map(nn.Module.children, self.down_modules):
            hidden = run(second, run(first, hidden))
            skipped.append(hidden)
            hidden = convolve(hidden, halve)
        for block in self.mid_modules:
            hidden = run(block, hidden)
        for first, second, double in map(nn.Module.children, self.up_modules):
            hidden = torch.cat([hidden, skipped.pop()], dim=-1)
            hidden = convolve(run(second, run(first, hidden)), double)
        block, head = self.final_conv
        return convolve(block(hidden), head)


def wave_codes(num_steps: int, dim: int) -> Tensor:
    """Codes (steps, dim) of timesteps 0, 1, 2, ...: sines of many wavelengths, then cosines."""
    half = dim // 2
    places = torch.arange(half, dtype=torch.float64)
    frequencies = torch.exp(-math.log(_LONGEST_WAVE) / (half - 1) * places)
    angles = torch.arange(num_steps, dtype=torch.float64)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=-1).float()


def _halves(film: nn.Linear, code: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
    """Split a linear layer's output into the terms of the code and of the condition."""
    size = code.shape[-1]
    return (
        F.linear(code, film.weight[:, :size], film.bias),
        F.linear(observed, film.weight[:, size:]),
    )
