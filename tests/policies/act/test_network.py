"""ACT against numbers that LeRobot printed for the same formulas."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from manyhands.draws.counter import CounterSource, derive_key
from manyhands.draws.generator import GeneratorSource
from manyhands.policies.act.network import ActNetwork
from manyhands.policies.policy import weighted_loss
from manyhands.types import Batch

CASES: dict[str, dict[str, Any]] = {
    "A1": {
        "config": {"cameras": True},
        "sizes": (188, 11_232_532),
        "train": (47.543327, 0.8248239, 4.6718502),
        "grad_norm": 326.7462,
        "eval": 0.8370109,
        "chunk": (0.3451072, 0.184475, -0.185726, 1.434409, 0.660132),
    },
    "A2": {
        "config": {"pre_norm": True, "feedforward_activation": "gelu", "n_decoder_layers": 2},
        "sizes": (108, 62_164),
        "train": (59.036556, 1.1220496, 5.7914505),
        "grad_norm": 550.7435,
        "eval": 1.1236694,
        "chunk": (-0.1665051, 1.128808, -0.087506, -2.177988, -0.143629),
    },
    "A3": {
        "config": {"use_vae": False},
        "sizes": (54, 31_172),
        "train": (0.6738481, 0.6738481),
        "grad_norm": 1.6213098,
        "eval": 0.6738481,
        "chunk": (0.0404825, 0.019777, -0.320567, 0.735383, 0.552722),
    },
}


def source_on(device: str) -> CounterSource:
    """What a step draws from, for three samples."""
    return CounterSource(derive_key(0, "draws").to(device), torch.arange(3, device=device))


def training_loss(
    network: ActNetwork, batch: Batch, seed: int = 1234
) -> tuple[Tensor, list[float]]:
    network.train()
    torch.manual_seed(seed)
    terms = network(batch, network.draw(GeneratorSource(len(batch["action"]))))
    loss, means = weighted_loss(terms, network.entry_counts(batch))
    return loss, [loss.item(), *(mean.item() for mean in means.values())]


def gradients(network: nn.Module) -> list[Tensor | None]:
    return [parameter.grad for parameter in network.parameters()]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_losses_gradients_and_chunks_are_lerobots(golden, case):
    config = golden.act_config(**case["config"])
    network, batch = golden.fill(ActNetwork(config)), golden.batch_of(config)

    network.eval()
    evaluation, _ = weighted_loss(network(batch, {}), network.entry_counts(batch))
    with torch.no_grad():
        chunk = network.predict(batch, {})
    loss, numbers = training_loss(network, batch)
    loss.backward()
    grad_norm = nn.utils.get_total_norm(gradients(network))

    assert (len(network.state_dict()), count(network)) == case["sizes"]
    assert numbers == pytest.approx(case["train"], rel=1e-6)
    assert evaluation.item() == pytest.approx(case["eval"], rel=1e-6)
    assert grad_norm.item() == pytest.approx(case["grad_norm"], rel=1e-6)
    assert [chunk.mean(), *chunk[0, 0]] == pytest.approx(case["chunk"], abs=2e-6)


def test_training_steps_are_lerobots(golden):
    config = golden.act_config(cameras=True, optimizer_lr=1e-3, optimizer_lr_backbone=1e-4)
    network, batch = golden.fill(ActNetwork(config)), golden.batch_of(config)
    preset = config.optimizer_preset()
    optimizer = torch.optim.AdamW(
        network.parameter_groups(), lr=preset.lr, weight_decay=preset.weight_decay
    )

    seen = []
    for step in range(4):
        loss, _ = training_loss(network, batch, seed=1234 + step)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(network.parameters(), preset.grad_clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        seen += [loss.item(), norm.item()]

    expected = [47.54333, 326.7462, 26.2281, 220.9025, 13.82506, 112.0161, 9.00681, 69.92]
    assert seen == pytest.approx(expected, rel=1e-5)
    head, stem = network.model.action_head.weight, network.model.backbone.conv1.weight
    assert head[0, :4].tolist() == pytest.approx(
        [-0.0194922, -0.1492074, -0.0592356, 0.1146421], abs=1e-6
    )
    assert stem[0, 0, 0, :3].tolist() == pytest.approx(
        [0.0311317, -0.0295957, -0.0570550], abs=1e-6
    )


def count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize("use_vae", [True, False])
@pytest.mark.parametrize("pre_norm", [True, False])
def test_every_parameter_gets_a_gradient(golden, use_vae, pre_norm):
    config = golden.act_config(use_vae=use_vae, pre_norm=pre_norm, dropout=0.1)
    network = ActNetwork(config)
    loss, _ = training_loss(network, golden.batch_of(config))
    loss.backward()
    assert all(gradient is not None for gradient in gradients(network))


def test_groups_hold_every_parameter_once_and_the_backbone_apart(golden):
    network = ActNetwork(golden.act_config(cameras=True, optimizer_lr_backbone=1e-4))
    others, backbone = network.parameter_groups()
    names = {id(value): name for name, value in network.named_parameters()}
    assert len(others["params"]) + len(backbone["params"]) == len(names)
    assert "lr" not in others and backbone["lr"] == 1e-4
    assert {names[id(value)].startswith("model.backbone") for value in backbone["params"]} == {True}
    assert {names[id(value)].startswith("model.backbone") for value in others["params"]} == {False}


def test_the_backbone_group_is_empty_without_cameras(golden):
    groups = ActNetwork(golden.act_config()).parameter_groups()
    assert groups[1]["params"] == []
    torch.optim.AdamW(groups, lr=1e-3)


def test_terms_of_parts_add_up_to_the_terms_of_the_whole_batch(golden):
    config = golden.act_config()
    network, batch = golden.fill(ActNetwork(config)), golden.batch_of(config)
    draws = network.draw(GeneratorSource(3, torch.Generator().manual_seed(0)))
    whole = network(batch, draws)
    parts = [
        network(
            {name: value[part] for name, value in batch.items()},
            {name: value[part] for name, value in draws.items()},
        )
        for part in (slice(0, 1), slice(1, 3))
    ]
    for name, term in whole.items():
        total = sum(part[name].total for part in parts)
        torch.testing.assert_close(total, term.total)


def test_a_batch_of_padding_alone_costs_nothing(golden):
    config = golden.act_config(use_vae=False)
    network, batch = ActNetwork(config), golden.batch_of(config)
    batch["action_is_pad"] = torch.ones_like(batch["action_is_pad"])
    loss, _ = training_loss(network, batch)
    assert loss == 0


def test_padded_actions_do_not_reach_the_loss(golden):
    config = golden.act_config()
    network, batch = golden.fill(ActNetwork(config)), golden.batch_of(config)
    _, before = training_loss(network, batch)
    batch["action"] = batch["action"].masked_fill(batch["action_is_pad"][..., None], 9.0)
    _, after = training_loss(network, batch)
    assert after == pytest.approx(before, rel=1e-6)


def test_draws_depend_on_their_generator_alone(golden):
    network = ActNetwork(golden.act_config())
    first, again = (
        network.draw(GeneratorSource(5, torch.Generator().manual_seed(7))) for _ in range(2)
    )
    assert first["latent_noise"].shape == (5, 8)
    assert torch.equal(first["latent_noise"], again["latent_noise"])
    assert ActNetwork(golden.act_config(use_vae=False)).draw(GeneratorSource(5)) == {}


def test_prediction_ignores_the_actions_and_the_mode_of_the_latent(golden):
    config = golden.act_config()
    network, batch = golden.fill(ActNetwork(config)), golden.batch_of(config)
    observation = {name: batch[name] for name in config.input_features}
    with torch.no_grad():
        assert torch.equal(
            network.train().predict(batch, {}), network.eval().predict(observation, {})
        )


def test_dropout_acts_in_training_only(golden):
    config = golden.act_config(dropout=0.5, use_vae=False)
    network, batch = golden.fill(ActNetwork(config)), golden.batch_of(config)
    with torch.no_grad():
        noisy = [network.train().predict(batch, {}) for _ in range(2)]
        plain = [network.eval().predict(batch, {}) for _ in range(2)]
    assert not torch.equal(*noisy)
    assert torch.equal(*plain)


def test_an_update_reads_no_value_from_the_device(golden):
    config = golden.act_config(cameras=True, dropout=0.1)
    with torch.device("meta"):
        network = ActNetwork(config)
    batch = {name: value.to("meta") for name, value in golden.batch_of(config).items()}
    draws = network.draw(source_on("meta"))
    loss, _ = weighted_loss(network(batch, draws), network.entry_counts(batch))
    loss.backward()
    assert all(gradient is not None for gradient in gradients(network))


@pytest.mark.parametrize("use_vae", [True, False])
def test_an_update_waits_for_nothing(golden, no_host_synchronization, use_vae):
    config = golden.act_config(cameras=use_vae, use_vae=use_vae, dropout=0.1)
    network, batch = ActNetwork(config), golden.batch_of(config)
    with no_host_synchronization():
        draws = network.draw(source_on("cpu"))
        loss, _ = weighted_loss(network(batch, draws), network.entry_counts(batch))
        loss.backward()
    assert all(gradient is not None for gradient in gradients(network))


def test_counts_are_known_before_the_forward_pass(golden):
    config = golden.act_config()
    network, batch = ActNetwork(config), golden.batch_of(config)
    terms = network(batch, network.draw(GeneratorSource(3)))
    counts = network.entry_counts(batch)
    assert list(counts) == list(terms)
    assert counts == {"l1_loss": 4 * (8 + 7 + 6), "kld_loss": 3}
    assert list(network(batch, {})) == ["l1_loss"]
