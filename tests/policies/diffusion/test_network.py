"""Diffusion Policy against numbers that LeRobot printed for the same formulas."""

import math
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.draws.counter import CounterSource, derive_key
from manyhands.draws.generator import GeneratorSource
from manyhands.launch.workers import run_workers
from manyhands.policies.build import build_policy
from manyhands.policies.diffusion.network import DiffusionNetwork
from manyhands.policies.policy import weighted_loss
from manyhands.types import Batch

CASES: dict[str, dict[str, Any]] = {
    "D1": {
        "config": {"cameras": True, "num_inference_steps": 10},
        "sizes": (398, 22_697_716),
        "losses": (1.4782933, 1.4769101),
        "grad_norm": 17.18747,
        "mean": -0.0516559,
        "first": (1, 0.985086, -1, -0.636478),
        "last": (0.880742, 0.292762, -1, -0.093731),
    },
    "D2": {
        "config": {
            "cameras": True,
            "use_group_norm": True,
            "use_separate_rgb_encoder_per_camera": False,
            "use_film_scale_modulation": False,
            "prediction_type": "sample",
            "do_mask_loss_for_padding": True,
            "noise_scheduler_type": "DDIM",
            "num_inference_steps": 10,
            "resize_shape": (48, 72),
            "crop_ratio": 0.9,
        },
        "sizes": (213, 11_470_684),
        "losses": (1.0751972, 1.0751972),
        "grad_norm": 7.671461,
        "mean": -0.0649704,
        "first": (-0.304501, -0.328959, 0.314215, 0.355807),
        "last": (-0.072426, 0.156580, 0.358565, 0.060449),
    },
    "D3": {
        "config": {},
        "sizes": (148, 278_596),
        "losses": (1.4867085, 1.4867085),
        "grad_norm": 4.399007,
        "mean": 0.0136546,
        "first": (1, 1, -0.859643, 0.987558),
        "last": (0.158208, -1, -1, 0.910892),
    },
    "D4": {
        "config": {
            "cameras": True,
            "crop_shape": (56, 56),
            "noise_scheduler_type": "DDIM",
            "num_inference_steps": 16,
        },
        "sizes": (398, 22_697_716),
        "losses": (1.4960889, 1.4618553),
        "grad_norm": 19.77832,
        "mean": 0.0244821,
        "first": (0.946951, -0.079838, -0.433128, 0.594258),
        "last": (0.127574, 0.291011, -0.887664, -0.115966),
    },
}


def source_on(device: str) -> CounterSource:
    """What a step draws from, for three samples."""
    return CounterSource(derive_key(0, "draws").to(device), torch.arange(3, device=device))


def loss_after_seed(network: DiffusionNetwork, batch: Batch, seed: int = 1234) -> Tensor:
    torch.manual_seed(seed)
    return loss_of_draws(network, batch, network.draw(GeneratorSource(len(batch["action"]))))


def loss_of_draws(network: DiffusionNetwork, batch: Batch, draws: dict[str, Tensor]) -> Tensor:
    loss, _ = weighted_loss(network(batch, draws), network.entry_counts(batch))
    return loss


def gradients(network: nn.Module) -> list[Tensor | None]:
    return [parameter.grad for parameter in network.parameters()]


def grad_norm_of(network: nn.Module) -> float:
    """In double precision: millions of squares do not add up in single precision."""
    squares = [parameter.grad.double().square().sum() for parameter in network.parameters()]
    return torch.stack(squares).sum().sqrt().item()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_losses_gradients_and_chunks_are_lerobots(golden, case):
    config = golden.diffusion_config(**case["config"])
    network, batch = golden.fill(DiffusionNetwork(config)), golden.batch_of(config)

    network.eval()
    with torch.no_grad():
        evaluation = loss_after_seed(network, batch)
        torch.manual_seed(99)
        chunk = network.predict(batch, {"sampling_noise": golden.normal("noise", 3, 16, 4)})
    loss = loss_after_seed(network.train(), batch)
    loss.backward()

    num_parameters = sum(parameter.numel() for parameter in network.parameters())
    assert (len(network.state_dict()), num_parameters) == case["sizes"]
    assert [loss.item(), evaluation.item()] == pytest.approx(case["losses"], rel=1e-6)
    assert grad_norm_of(network) == pytest.approx(case["grad_norm"], rel=2e-5)
    # Kernels that round otherwise, which memory's layout may choose, move the mean by 1.2e-6
    # and single actions by 1.1e-5.
    assert chunk.mean().item() == pytest.approx(case["mean"], abs=5e-6)
    assert chunk[0, 0].tolist() == pytest.approx(case["first"], abs=3e-5)
    assert chunk[2, 7].tolist() == pytest.approx(case["last"], abs=3e-5)


def test_random_crops_are_drawn_as_by_lerobot(golden):
    config = golden.diffusion_config(cameras=True, crop_shape=(56, 56), crop_is_random=True)
    network, batch = golden.fill(DiffusionNetwork(config)), golden.batch_of(config)
    assert loss_after_seed(network, batch).item() == pytest.approx(1.4732739, rel=1e-6)


def test_actions_are_selected_as_by_lerobot(golden):
    config = golden.diffusion_config(noise_scheduler_type="DDIM", num_inference_steps=5)
    policy = build_policy(config, stats={}).eval()
    golden.fill(policy.network)
    draws = {"sampling_noise": golden.normal("noise", 3, 16, 4)}
    actions = [
        policy.select_action(
            {
                "observation.state": golden.normal(f"s{tick}", 3, 6),
                "observation.environment_state": golden.normal(f"e{tick}", 3, 5),
            },
            draws,
        )
        for tick in range(9)
    ]
    expected = {
        0: (0.724160, 0.482186, -0.989066, 0.969539),
        1: (-0.163590, -0.498225, 0.818347, 0.783133),
        7: (-0.428087, 0.834796, 0.151709, 0.526630),
        8: (-0.053892, 0.440994, -0.924847, 0.916909),
    }
    for tick, action in expected.items():
        assert actions[tick][0].tolist() == pytest.approx(action, abs=1e-5)


def test_training_steps_are_lerobots(golden):
    config = golden.diffusion_config(optimizer_lr=1e-3, scheduler_warmup_steps=2)
    network, batch = golden.fill(DiffusionNetwork(config)), golden.batch_of(config)
    preset = config.optimizer_preset()
    optimizer = torch.optim.Adam(
        network.parameter_groups(),
        lr=preset.lr,
        betas=preset.betas,
        eps=preset.eps,
        weight_decay=preset.weight_decay,
    )

    factors = [0, 0.5, *(0.5 * (1 + math.cos(math.pi * step / 8)) for step in range(3))]
    seen = []
    for step, factor in enumerate(factors):
        optimizer.param_groups[0]["lr"] = preset.lr * factor
        loss = loss_after_seed(network, batch, seed=1234 + step)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(network.parameters(), preset.grad_clip_norm)
        seen.append((loss.item(), norm.item(), optimizer.param_groups[0]["lr"]))
        optimizer.step()
        optimizer.zero_grad()

    expected = [
        (1.48671, 4.399, 0),
        (1.12751, 3.5681, 5e-4),
        (1.22735, 3.8761, 1e-3),
        (1.28513, 3.2033, 9.6194e-4),
        (1.19493, 3.1483, 8.5355e-4),
    ]
    for (loss, norm, rate), step in zip(seen, expected, strict=True):
        assert (round(loss, 5), round(norm, 4), rate) == pytest.approx(step, rel=1e-5)
    last = network.diffusion.unet.final_conv[1].weight[0, :4, 0]
    assert last.tolist() == pytest.approx([-0.2018861, 0.0117917, -0.1540354, -0.0079835], abs=1e-6)


CROPPING = {
    "input_features": {
        "observation.images.top": PolicyFeature(FeatureType.VISUAL, (3, 36, 44)),
        "observation.images.wrist": PolicyFeature(FeatureType.VISUAL, (3, 36, 44)),
        "observation.state": PolicyFeature(FeatureType.STATE, (6,)),
    },
    "crop_shape": (34, 40),
    "crop_is_random": True,
}
SEEING = CROPPING | {"crop_shape": None}


def test_draws_depend_on_their_generator_alone(golden):
    network = DiffusionNetwork(golden.diffusion_config(**CROPPING))
    first, again = (
        network.draw(GeneratorSource(5, torch.Generator().manual_seed(7))) for _ in range(2)
    )
    assert {name: (*value.shape,) for name, value in first.items()} == {
        "crop": (5, 2, 2),
        "noise": (5, 16, 4),
        "timesteps": (5,),
    }
    assert list(first) == ["crop", "noise", "timesteps"]
    assert all(torch.equal(value, again[name]) for name, value in first.items())


def test_an_encoder_crops_all_samples_alike_and_within_the_image(golden):
    network = DiffusionNetwork(golden.diffusion_config(**CROPPING))
    random = torch.Generator().manual_seed(0)
    corners = torch.stack([network.draw(GeneratorSource(4, random))["crop"] for _ in range(300)])
    assert (corners == corners[:, :1]).all()
    assert corners[..., 0].unique().tolist() == [*range(3)]
    assert corners[..., 1].unique().tolist() == [*range(5)]
    assert not torch.equal(corners[:, :, 0], corners[:, :, 1])


def test_samples_may_be_cropped_at_places_of_their_own(golden):
    network = DiffusionNetwork(golden.diffusion_config(**CROPPING, crop_per_sample=True))
    corners = network.draw(GeneratorSource(5000, torch.Generator().manual_seed(0)))["crop"]
    assert corners.shape == (5000, 2, 2)
    for encoder in range(2):
        assert corners[:, encoder, 0].unique().tolist() == [*range(3)]
        assert corners[:, encoder, 1].unique().tolist() == [*range(5)]
    assert len(corners.flatten(1).unique(dim=0)) == (3 * 5) ** 2


@pytest.mark.parametrize(
    "changes",
    [
        SEEING,
        {"prediction_type": "sample"},
        {"do_mask_loss_for_padding": True},
        {"prediction_type": "sample", "do_mask_loss_for_padding": True},
    ],
    ids=["images", "sample", "masked", "sample, masked"],
)
def test_several_noises_per_sample_cost_the_mean_over_copies_of_the_sample(golden, changes):
    config = golden.diffusion_config(**changes, noise_draws_per_sample=3)
    network, batch = golden.fill(DiffusionNetwork(config)), golden.batch_of(config)
    draws = network.draw(GeneratorSource(3, torch.Generator().manual_seed(0)))
    assert draws["noise"].shape == (3, 3, 16, 4) and draws["timesteps"].shape == (3, 3)

    single = golden.fill(DiffusionNetwork(replace(config, noise_draws_per_sample=1)))
    copies = {name: value.repeat_interleave(3, dim=0) for name, value in batch.items()}
    rows = {name: value.flatten(0, 1) for name, value in draws.items()}
    # In evaluation, batch norms do not count how many copies there are.
    losses = [
        loss_of_draws(network.eval(), batch, draws),
        loss_of_draws(single.eval(), copies, rows),
    ]
    for loss in losses:
        loss.backward()
    torch.testing.assert_close(losses[0], losses[1])
    for one, other in zip(gradients(network), gradients(single), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"crop_shape": (36, 44)}, False),
        ({"crop_shape": (36, 43)}, True),
        ({"crop_shape": None}, False),
        ({"crop_is_random": False}, False),
        ({"resize_shape": (48, 72)}, False),
        ({"resize_shape": (48, 72), "crop_ratio": 0.5}, True),
    ],
)
def test_corners_are_drawn_only_where_they_matter(golden, changes, expected):
    with torch.device("meta"):
        network = DiffusionNetwork(golden.diffusion_config(**(CROPPING | changes)))
    assert ("crop" in network.draw(GeneratorSource(2, torch.Generator()))) == expected
    assert "crop" not in network.eval().draw(GeneratorSource(2, torch.Generator()))


def test_without_cameras_there_is_nothing_to_crop(golden):
    network = DiffusionNetwork(golden.diffusion_config(crop_shape=(4, 4), crop_is_random=True))
    assert list(network.draw(GeneratorSource(2, torch.Generator()))) == ["noise", "timesteps"]


def test_every_timestep_is_drawn(golden):
    network = DiffusionNetwork(golden.diffusion_config(num_train_timesteps=7))
    timesteps = network.draw(GeneratorSource(500, torch.Generator().manual_seed(0)))["timesteps"]
    assert timesteps.dtype == torch.int64
    assert timesteps.unique().tolist() == [*range(7)]


@pytest.mark.parametrize("count", [2, 3, 5])
def test_timesteps_of_a_sample_are_stratified_and_all_equally_likely(golden, count):
    config = golden.diffusion_config(num_train_timesteps=10, noise_draws_per_sample=count)
    network = DiffusionNetwork(config)
    random = torch.Generator().manual_seed(0)
    timesteps = network.draw(GeneratorSource(20_000, random))["timesteps"]
    assert (timesteps.diff(dim=1) >= 0).all()
    for number in range(count):
        lowest, highest = (10 * number) // count, -(-10 * (number + 1) // count) - 1
        assert timesteps[:, number].unique().tolist() == [*range(lowest, highest + 1)]
    shares = torch.bincount(timesteps.flatten()) / timesteps.numel()
    torch.testing.assert_close(shares, torch.full((10,), 0.1), rtol=0, atol=0.005)


def test_evaluation_crops_the_center_whatever_is_drawn(golden):
    config = golden.diffusion_config(**CROPPING)
    network, batch = DiffusionNetwork(config), golden.batch_of(config)
    draws = network.draw(GeneratorSource(3, torch.Generator().manual_seed(0)))
    other = {**draws, "crop": torch.zeros_like(draws["crop"])}
    with torch.no_grad():
        seen = [loss_of_draws(network.eval(), batch, each).item() for each in (draws, other)]
        assert seen[0] == seen[1]
        seen = [loss_of_draws(network.train(), batch, each).item() for each in (draws, other)]
        assert seen[0] != seen[1]


def test_padding_counts_only_where_it_is_asked_for(golden):
    for masked, num_values in ((False, 4 * 48), (True, 4 * (16 + 15 + 14))):
        config = golden.diffusion_config(do_mask_loss_for_padding=masked, prediction_type="sample")
        network, batch = golden.fill(DiffusionNetwork(config)), golden.batch_of(config)
        assert network.entry_counts(batch) == {"mse_loss": num_values}
        draws = network.draw(GeneratorSource(3, torch.Generator().manual_seed(0)))
        # The true actions reach the network only through noisy ones, of which nothing is left.
        network.signal_amounts.zero_()
        before = network(batch, draws)["mse_loss"].total
        batch["action"] = batch["action"].masked_fill(batch["action_is_pad"][..., None], 9.0)
        after = network(batch, draws)["mse_loss"].total
        assert torch.equal(before, after) == masked


def test_a_batch_of_padding_alone_costs_nothing(golden):
    config = golden.diffusion_config(do_mask_loss_for_padding=True)
    network, batch = DiffusionNetwork(config), golden.batch_of(config)
    batch["action_is_pad"] = torch.ones_like(batch["action_is_pad"])
    assert loss_after_seed(network, batch) == 0


def test_terms_of_parts_add_up_to_the_terms_of_the_whole_batch(golden):
    config = golden.diffusion_config(do_mask_loss_for_padding=True)
    network, batch = golden.fill(DiffusionNetwork(config)), golden.batch_of(config)
    draws = network.draw(GeneratorSource(3, torch.Generator().manual_seed(0)))
    parts = [
        network(
            {name: value[part] for name, value in batch.items()},
            {name: value[part] for name, value in draws.items()},
        )["mse_loss"].total
        for part in (slice(0, 1), slice(1, 3))
    ]
    torch.testing.assert_close(sum(parts), network(batch, draws)["mse_loss"].total)


def test_activations_may_be_computed_again_instead_of_kept(golden):
    results = []
    for again in (False, True):
        config = golden.diffusion_config(**CROPPING, gradient_checkpointing=again)
        torch.manual_seed(0)
        network, batch = DiffusionNetwork(config), golden.batch_of(config)
        loss = loss_after_seed(network, batch)
        loss.backward()
        results.append(([loss.detach(), *gradients(network)], network.state_dict()))
    (plain, plain_state), (again, again_state) = results
    assert all(torch.equal(one, other) for one, other in zip(plain, again, strict=True))
    assert all(torch.equal(value, again_state[name]) for name, value in plain_state.items())
    counts = [value for name, value in again_state.items() if name.endswith("batches_tracked")]
    assert counts and all(count == 1 for count in counts)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        CROPPING,
        SEEING | {"resize_shape": (48, 72), "crop_ratio": 0.5, "use_group_norm": True},
        SEEING | {"use_separate_rgb_encoder_per_camera": False, "gradient_checkpointing": True},
        {"do_mask_loss_for_padding": True, "prediction_type": "sample"},
        CROPPING | {"crop_per_sample": True, "noise_draws_per_sample": 2},
    ],
)
def test_an_update_reads_no_value_and_reaches_every_parameter(golden, changes):
    config = golden.diffusion_config(**changes)
    with torch.device("meta"):
        network = DiffusionNetwork(config)
    batch = {name: value.to("meta") for name, value in golden.batch_of(config).items()}
    draws = network.draw(source_on("meta"))
    loss_of_draws(network, batch, draws).backward()
    assert all(gradient is not None for gradient in gradients(network))


def test_all_parameters_are_trained_alike(golden):
    with torch.device("meta"):
        network = DiffusionNetwork(golden.diffusion_config(**SEEING))
    (group,) = network.parameter_groups()
    assert list(group) == ["params"]
    assert [*map(id, group["params"])] == [*map(id, network.parameters())]


@pytest.mark.parametrize("changes", [CROPPING, {"do_mask_loss_for_padding": True}])
def test_an_update_waits_for_nothing(golden, no_host_synchronization, changes):
    config = golden.diffusion_config(**changes)
    network, batch = DiffusionNetwork(config), golden.batch_of(config)
    with no_host_synchronization():
        draws = network.draw(source_on("cpu"))
        loss_of_draws(network, batch, draws).backward()
    assert all(gradient is not None for gradient in gradients(network))


@pytest.mark.parametrize("kind", ["DDPM", "DDIM"])
@pytest.mark.parametrize("prediction_type", ["epsilon", "sample"])
def test_acting_is_denoising_step_by_step(golden, kind, prediction_type):
    config = golden.diffusion_config(
        noise_scheduler_type=kind, prediction_type=prediction_type, num_inference_steps=4
    )
    network = golden.fill(DiffusionNetwork(config)).double().eval()
    batch = {name: value.double() for name, value in golden.batch_of(config).items()}
    start, fresh = (golden.normal("noise", 3, *shape, 16, 4).double() for shape in ((), (3,)))
    sampler, timesteps = network._sampler, [75, 50, 25, 0]

    def denoise(noisy: Tensor, number: int) -> Tensor:
        times = torch.full((3,), timesteps[number])
        output: Tensor = network.diffusion(noisy, times, batch, None)
        return output

    with torch.no_grad():
        expected = sampler.sample(denoise, start, fresh)
        chunk = network.predict(batch, {"sampling_noise": start, "step_noise": fresh})
    assert chunk.dtype == torch.float64
    torch.testing.assert_close(chunk, expected[:, 1:9], rtol=1e-10, atol=1e-10)


def test_noise_of_acting_that_is_not_given_is_drawn_first_to_last(golden):
    config = golden.diffusion_config(num_inference_steps=3)
    network, batch = golden.fill(DiffusionNetwork(config)).eval(), golden.batch_of(config)
    with torch.no_grad():
        torch.manual_seed(3)
        drawn = network.predict(batch, {})
        torch.manual_seed(3)
        start, *fresh = (torch.randn(3, 16, 4) for _ in range(3))
        step_noise = torch.stack(fresh, dim=1)
        same = network.predict(batch, {"sampling_noise": start, "step_noise": step_noise})
    assert torch.equal(drawn, same)


def test_acting_waits_for_nothing(golden, no_host_synchronization):
    config = golden.diffusion_config(num_inference_steps=3)
    network, batch = DiffusionNetwork(config).eval(), golden.batch_of(config)
    with torch.no_grad(), no_host_synchronization():
        assert network.predict(batch, {}).shape == (3, 8, 4)


SHARES = """
import sys, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from manyhands.policies.diffusion.network import DiffusionNetwork
from manyhands.policies.policy import weighted_loss

dist.init_process_group("gloo")
folder, rank = sys.argv[1], dist.get_rank()
case = torch.load(f"{folder}/case.pt", weights_only=False)
network = DiffusionNetwork(case["config"])
network.load_state_dict(case["state"])
wrapped = DistributedDataParallel(network, broadcast_buffers=False)
own = slice(1) if rank == 0 else slice(1, 3)
batch, draws = ({k: v[own] for k, v in case[part].items()} for part in ("batch", "draws"))
loss, _ = weighted_loss(wrapped(batch, draws), case["counts"])
(loss * 2).backward()
gradients = [parameter.grad for parameter in network.parameters()]
torch.save((loss, gradients, network.state_dict()), f"{folder}/{rank}.pt")
dist.destroy_process_group()
"""


@pytest.mark.process
def test_ranks_with_parts_of_a_batch_are_one_process_with_all_of_it(golden, tmp_path):
    features = dict(CROPPING["input_features"])
    del features["observation.images.wrist"]
    changes = CROPPING | {"input_features": features, "gradient_checkpointing": True}
    config = golden.diffusion_config(**changes)
    torch.manual_seed(0)
    network, batch = DiffusionNetwork(config), golden.batch_of(config)
    draws = network.draw(GeneratorSource(3, torch.Generator().manual_seed(0)))
    state = {name: value.clone() for name, value in network.state_dict().items()}
    counts = network.entry_counts(batch)
    case = {"config": config, "state": state, "batch": batch, "draws": draws, "counts": counts}
    torch.save(case, tmp_path / "case.pt")
    assert run_workers(2, [sys.executable, "-c", SHARES, str(tmp_path)]).code == 0

    whole = loss_of_draws(network, batch, draws)
    whole.backward()
    ranks = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    torch.testing.assert_close(ranks[0][0] + ranks[1][0], whole)
    for _, shared_gradients, buffers in ranks:
        torch.testing.assert_close(shared_gradients, gradients(network), rtol=1e-3, atol=2e-6)
        torch.testing.assert_close(dict(buffers), dict(network.state_dict()))


def test_single_precision_is_close_to_double(golden):
    config = golden.diffusion_config(**SEEING, use_group_norm=True)
    torch.manual_seed(0)
    network, batch = DiffusionNetwork(config), golden.batch_of(config)
    draws = network.draw(GeneratorSource(3, torch.Generator().manual_seed(0)))
    single = loss_of_draws(network, batch, draws)
    wide = {
        name: value.double() if value.is_floating_point() else value
        for name, value in (batch | draws).items()
    }
    double = loss_of_draws(network.double(), wide, wide)
    assert double.dtype == torch.float64
    assert single.item() == pytest.approx(double.item(), rel=1e-6)


def test_half_precision_gives_a_loss_in_single(golden):
    config = golden.diffusion_config()
    network, batch = golden.fill(DiffusionNetwork(config)), golden.batch_of(config)
    plain = loss_after_seed(network, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = loss_after_seed(network, batch)
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(plain.item(), rel=0.05)
