"""Denoising steps against their definitions, one operation at a time."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.policies.diffusion.sampler import Sampler, alpha_bars, denoising_steps, mixture

SHAPE = (2, 8, 3)


def noise_of(seed: int, *shape: int) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(shape or SHAPE, generator=random, dtype=torch.float64)


def output_of(actions: Tensor, timestep: int) -> Tensor:
    """A network that can be computed in the head."""
    return torch.sin(3 * actions + timestep)


def plain_sample(config: DiffusionConfig, actions: Tensor, step_noise: Tensor) -> Tensor:
    """Every step by its definition, from the timestep alone."""
    left = torch.tensor(alpha_bars(config), dtype=torch.float64)
    distance = config.num_train_timesteps // config.num_denoising_steps
    for number in range(config.num_denoising_steps):
        time = distance * (config.num_denoising_steps - 1 - number)
        now, after = left[time], left[time - distance] if time >= distance else torch.tensor(1.0)
        output = output_of(actions, time)
        clean, noise = output, (actions - now.sqrt() * output) / (1 - now).sqrt()
        if config.prediction_type == "epsilon":
            clean, noise = (actions - (1 - now).sqrt() * output) / now.sqrt(), output
        if config.clip_sample:
            clean = clean.clamp(-config.clip_sample_range, config.clip_sample_range)
        if config.noise_scheduler_type == "DDIM":
            actions = after.sqrt() * clean + (1 - after).sqrt() * noise
            continue
        kept = (now / after).float().double()
        actions = (
            after.sqrt() * (1 - kept) / (1 - now) * clean
            + kept.sqrt() * (1 - after) / (1 - now) * actions
        )
        if time > 0:
            variance = (1 - after) / (1 - now) * (1 - kept)
            actions = actions + variance.clamp(min=1e-20).sqrt() * step_noise[:, number]
    return actions


@settings(max_examples=60)
@given(
    kind=st.sampled_from([("DDPM", "sigmoid"), ("DDPM", "squaredcos_cap_v2"), ("DDIM", "linear")]),
    steps=st.integers(1, 40).flatmap(lambda most: st.tuples(st.just(most), st.integers(1, most))),
    prediction_type=st.sampled_from(["epsilon", "sample"]),
    clip=st.sampled_from([None, 1.0, 0.3]),
)
def test_prepared_steps_are_those_of_the_definition(kind, steps, prediction_type, clip):
    config = DiffusionConfig(
        noise_scheduler_type=kind[0],
        beta_schedule=kind[1],
        num_train_timesteps=steps[0],
        num_inference_steps=steps[1],
        prediction_type=prediction_type,
        clip_sample=clip is not None,
        clip_sample_range=clip or 1.0,
    )
    sampler, start = Sampler(config), noise_of(0)
    step_noise = noise_of(1, 2, steps[1], *SHAPE[1:])
    timesteps = [step.timestep for step in sampler.steps]
    actions = sampler.sample(
        lambda noisy, number: output_of(noisy, timesteps[number]), start, step_noise
    )
    expected = plain_sample(config, start, step_noise)
    torch.testing.assert_close(actions, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("num_steps", "expected"),
    [(None, [*range(99, -1, -1)]), (10, [*range(90, -1, -10)]), (16, [*range(90, -1, -6)])],
)
def test_timesteps_lie_at_equal_distances_down_to_zero(num_steps, expected):
    steps = denoising_steps(DiffusionConfig(num_inference_steps=num_steps))
    assert [step.timestep for step in steps] == expected


def test_only_ddpm_adds_noise_and_not_in_the_end():
    ddpm = denoising_steps(DiffusionConfig(num_inference_steps=5))
    ddim = denoising_steps(DiffusionConfig(num_inference_steps=5, noise_scheduler_type="DDIM"))
    assert [step.fresh_noise > 0 for step in ddpm] == [True, True, True, True, False]
    assert [step.fresh_noise for step in ddim] == [0.0] * 5


@pytest.mark.parametrize("kind", ["DDPM", "DDIM"])
def test_a_network_that_knows_the_actions_leads_to_them(kind):
    config = DiffusionConfig(
        noise_scheduler_type=kind, prediction_type="sample", num_inference_steps=7
    )
    known = noise_of(3).clamp(-1, 1)
    actions = Sampler(config).sample(lambda noisy, number: known, noise_of(4))
    torch.testing.assert_close(actions, known)


def test_noise_that_is_not_given_is_drawn_step_by_step():
    config = DiffusionConfig(num_inference_steps=4)
    sampler, start = Sampler(config), noise_of(0)

    def denoise(noisy: Tensor, number: int) -> Tensor:
        return output_of(noisy, number)

    torch.manual_seed(5)
    drawn = sampler.sample(denoise, start)
    torch.manual_seed(5)
    given_noise = torch.stack([torch.randn_like(start) for _ in range(3)], dim=1)
    assert torch.equal(drawn, sampler.sample(denoise, start, given_noise))
    assert not torch.equal(drawn, sampler.sample(denoise, start))


def test_what_has_no_weight_is_not_looked_at():
    value = torch.tensor([2.0, 3.0])
    endless = torch.full((2,), torch.inf)
    assert mixture((0.5, 0.0, 2.0), value, endless, value).tolist() == [5.0, 7.5]
