"""SmolVLA's loss, draws, gradients and chunks."""

import pytest
import torch
from torch.distributions import Beta

from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.draws.generator import GeneratorSource
from manyhands.policies.policy import weighted_loss
from manyhands.policies.smolvla.aloha import adapted_action, adapted_state, restored_action

FREEZING = [
    {},
    {"train_state_proj": False},
    {"train_expert_only": False},
    {"train_expert_only": False, "freeze_vision_encoder": False},
    {"train_expert_only": False, "attention_mode": "self_attn", "num_expert_layers": 2},
    {"train_expert_only": False, "attention_mode": "self_attn", "num_expert_layers": 1},
]

NEAR = {"float32": 1e-5, "float64": 1e-10, "bf16": 5e-2}
"""How far the modes are apart in the loss and in each gradient, relative to its norm."""


def loss(network, batch, draws):
    return weighted_loss(network(batch, draws), network.entry_counts(batch))[0]


def test_unseeded_draws_are_lerobots_in_its_order(tiny):
    network = tiny.network()
    torch.manual_seed(7)
    draws = network.draw(GeneratorSource(4))
    torch.manual_seed(7)
    noise, share = torch.randn(4, 5, 6), Beta(torch.tensor(1.5), torch.tensor(1.0)).sample((4,))
    assert torch.equal(draws["noise"], noise)
    torch.testing.assert_close(draws["time"], share * 0.999 + 0.001)


def test_draws_depend_on_their_generator_alone(tiny):
    network = tiny.network()
    first, second = (
        network.draw(GeneratorSource(4, torch.Generator().manual_seed(1))) for _ in range(2)
    )
    assert all(torch.equal(first[name], second[name]) for name in ("noise", "time"))
    assert ((first["time"] > 0) & (first["time"] <= 1)).all()


def test_the_loss_is_a_function_of_batch_and_draws(tiny):
    network, batch, draws = tiny.network(), tiny.batch(), tiny.draws()
    assert torch.equal(loss(network, batch, draws), loss(network, batch, draws))
    assert loss(network, batch, draws) != loss(network, batch, tiny.draws("others"))


def test_the_loss_of_a_batch_is_that_of_its_parts(tiny):
    network, batch, draws = tiny.network(), tiny.batch(), tiny.draws()
    counts = network.entry_counts(batch)
    parts = [
        network(*({key: value[part] for key, value in each.items()} for each in (batch, draws)))
        for part in (slice(0, 1), slice(1, 3))
    ]
    summed = sum(weighted_loss(each, counts)[0] for each in parts)
    torch.testing.assert_close(summed, loss(network, batch, draws))


def test_padded_actions_do_not_count(tiny):
    network, batch, draws = tiny.network(), tiny.batch(), tiny.draws()
    # A later action is not seen by those before it, and its own error is left out.
    changed = batch["action"].clone()
    changed[2, 3:] += 5
    assert batch["action_is_pad"][2].tolist() == [False] * 3 + [True] * 2
    found = loss(network, batch | {"action": changed}, draws)
    torch.testing.assert_close(found, loss(network, batch, draws))
    assert network.entry_counts(batch)["mse_loss"].item() == (5 + 4 + 3) * 3


@pytest.mark.parametrize("changes", FREEZING, ids=str)
def test_every_weight_that_learns_has_a_gradient_and_no_other(tiny, changes):
    network = tiny.network(**changes).train()
    loss(network, tiny.batch(), tiny.draws()).backward()
    for name, weight in network.named_parameters():
        assert (weight.grad is not None) == weight.requires_grad, name


@pytest.mark.parametrize("changes", FREEZING, ids=str)
@pytest.mark.parametrize("precision", NEAR)
def test_the_fast_mode_differs_from_the_exact_one_by_rounding(tiny, changes, precision):
    dtype = torch.float64 if precision == "float64" else torch.float32
    batch, draws = (
        {key: each.to(dtype) if each.is_floating_point() else each for key, each in given.items()}
        for given in (tiny.batch(), tiny.draws())
    )
    found = []
    for exact in (False, True):
        network = tiny.network(**changes, exact=exact).to(dtype)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            value = loss(network, batch, draws)
        value.backward()
        found.append([value, *(each.grad for each in network.parameters() if each.requires_grad)])
    # What shifts all logits alike has a gradient of nothing but rounding.
    least = 0.01 * torch.nn.utils.get_total_norm(found[1][1:])
    for fast, expected in zip(*found, strict=True):
        size = torch.maximum(torch.linalg.vector_norm(expected), least)
        assert torch.linalg.vector_norm(fast - expected) <= NEAR[precision] * size


@pytest.mark.parametrize("exact", [True, False])
def test_what_learns_is_precise_unless_lerobots_types_are_asked_for(tiny, other_vlm, exact):
    changes = {"load_vlm_weights": True, "exact": exact}
    network = tiny.network(vlm_model_name=str(other_vlm()), **changes)
    experts = {each.dtype for each in network.model.vlm_with_expert.lm_expert.parameters()}
    assert (torch.bfloat16 in experts) == exact
    others = {each.dtype for each in network.parameters() if not each.requires_grad}
    assert others == {torch.bfloat16}


def test_an_update_asks_the_device_for_nothing(tiny, no_host_synchronization):
    network, batch, draws = tiny.network(add_image_special_tokens=True), tiny.batch(), tiny.draws()
    with no_host_synchronization():
        loss(network, batch, draws).backward()
    assert network.model.state_proj.weight.grad.any()


@pytest.mark.parametrize("changes", [{}, {"train_expert_only": False}], ids=str)
def test_recomputed_activations_change_nothing(tiny, changes):
    found, calls = [], []
    for recompute in (False, True):
        network = tiny.network(**changes, gradient_checkpointing=recompute)
        layer = network.model.vlm_with_expert.lm_expert.layers[0]
        layer.register_forward_pre_hook(lambda *_: calls.append(1))
        loss(network, tiny.batch(), tiny.draws()).backward()
        found.append([each.grad for each in network.parameters() if each.requires_grad])
    assert len(calls) == 1 + 2
    torch.testing.assert_close(*found, rtol=0, atol=0)


def learning(network) -> set[str]:
    return {name for name, weight in network.named_parameters() if weight.requires_grad}


def test_what_learns_is_what_the_flags_say(tiny):
    default, no_state, text, everything = (learning(tiny.network(**each)) for each in FREEZING[:4])
    vlm = "model.vlm_with_expert.vlm."
    assert len(default) == 47
    assert default - no_state == {"model.state_proj.weight", "model.state_proj.bias"}
    assert not any(name.startswith(vlm) for name in default)
    assert not any("vision_model" in name for name in text)
    assert any("vision_model" in name for name in everything)
    idle = (f"{vlm}lm_head", f"{vlm}model.text_model.norm", f"{vlm}model.text_model.layers.3")
    assert f"{vlm}model.text_model.layers.2.mlp.up_proj.weight" in text
    assert not any(name.startswith(idle) for name in everything)


def test_acting_goes_from_noise_in_straight_steps(tiny):
    network, batch, noise = tiny.network(num_steps=2), tiny.batch(), torch.ones(3, 5, 6)
    with torch.no_grad():
        chunk = network.predict(batch, {"sampling_noise": noise})
        memory = network.model.memory(batch)
        half = noise - network.model.velocity(noise, torch.full((3,), 1.0), memory) / 2
        end = half - network.model.velocity(half, torch.full((3,), 0.5), memory) / 2
    torch.testing.assert_close(chunk, end[..., :3])


def test_an_aloha_robot_is_taken_for_one_of_pis(tiny):
    inputs = tiny.config().input_features
    state = PolicyFeature(FeatureType.STATE, (14,))
    sizes = {
        "input_features": inputs | {"observation.state": state},
        "output_features": {"action": PolicyFeature(FeatureType.ACTION, (14,))},
        "max_state_dim": 14,
        "max_action_dim": 14,
    }
    plain, adapted = tiny.network(**sizes), tiny.network(**sizes, adapt_to_pi_aloha=True)
    joints, actions = torch.rand(3, 14), torch.rand(3, 5, 14)
    raw = tiny.batch() | {"observation.state": joints, "action": actions}
    given = {"observation.state": adapted_state(joints), "action": adapted_action(actions)}
    draws = plain.draw(GeneratorSource(3))
    assert torch.equal(loss(adapted, raw, draws), loss(plain, raw | given, draws))
    start = {"sampling_noise": draws["noise"]}
    with torch.no_grad():
        chunk = plain.predict(raw | given, start)
        assert torch.equal(adapted.predict(raw, start), restored_action(chunk))


def test_noise_is_drawn_where_none_is_given(tiny):
    network, batch = tiny.network(), tiny.batch()
    torch.manual_seed(3)
    with torch.no_grad():
        first = network.predict(batch, {})
    torch.manual_seed(3)
    with torch.no_grad():
        second = network.predict(batch, {"sampling_noise": torch.randn(3, 5, 6)})
    assert torch.equal(first, second)


@pytest.mark.parametrize("changes", [{}, {"load_vlm_weights": True}], ids=str)
def test_weights_of_less_precision_give_nearly_the_same_loss(tiny, other_vlm, changes):
    network = tiny.network(vlm_model_name=str(other_vlm(dtype="bfloat16")), **changes)
    assert {each.dtype for each in network.parameters()} == {torch.float32, torch.bfloat16}
    found, expected = (
        loss(each, tiny.batch(), tiny.draws()).item() for each in (network, tiny.network())
    )
    assert found == pytest.approx(expected, rel=0.03)


def test_all_weights_are_one_group(tiny):
    network = tiny.network()
    (group,) = network.parameter_groups()
    assert list(map(id, group["params"])) == list(map(id, network.parameters()))
