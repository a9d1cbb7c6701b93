"""The policy as users hold it: raw values in, raw values out, and the folder it writes."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from manyhands.errors import UserError
from manyhands.policies.build import build_policy
from manyhands.policies.load import load_policy

FIXTURES = ["act_vae", "act_plain_prenorm"]


def plain_policy(golden, **changes):
    """A policy by formula whose values are not scaled."""
    policy = build_policy(golden.act_config(**changes), stats={})
    golden.fill(policy.network)
    return policy


@pytest.fixture(params=FIXTURES)
def reference(request, shared):
    """A policy LeRobot saved, a raw batch, and what LeRobot computed from it."""
    folder = shared / "fixtures" / "policies" / request.param
    expected = json.loads((folder / "expected.json").read_text())
    tensors = load_file(folder / "expected.safetensors")
    batch = load_file(folder / "batch.safetensors")
    return load_policy(folder), batch, expected | tensors


def test_losses_and_gradients_are_lerobots(reference):
    policy, batch, expected = reference
    evaluation, _ = policy.eval().training_loss(batch)
    torch.manual_seed(expected["torch_manual_seed_before_train_forward"])
    loss, terms = policy.train().training_loss(batch)
    loss.backward()
    gradients = [parameter.grad for parameter in policy.network.parameters()]
    grad_norm = torch.nn.utils.get_total_norm(gradients)

    assert evaluation.item() == pytest.approx(expected["eval_loss"], rel=5e-7)
    assert loss.item() == pytest.approx(expected["train_loss"], rel=5e-7)
    assert grad_norm.item() == pytest.approx(expected["grad_norm"], rel=2e-6)
    for name, value in terms.items():
        assert value.item() == pytest.approx(expected[name], rel=5e-7)
    assert ("kld_loss" in terms) == policy.config.use_vae


def test_normalized_inputs_are_lerobots(reference):
    policy, batch, expected = reference
    prepared = policy.prepare(batch)
    for name, key in (("observation.state", "normalized_state"), ("action", "normalized_action")):
        torch.testing.assert_close(prepared[name], expected[key], rtol=0, atol=1e-6)
    environment = "observation.environment_state"
    assert torch.equal(prepared[environment], batch[environment])


def test_chunks_are_lerobots(reference):
    policy, batch, expected = reference
    with torch.no_grad():
        chunk = policy.network.predict(policy.prepare_observation(batch), {})
    torch.testing.assert_close(chunk, expected["chunk"], rtol=0, atol=2e-6)
    actions = policy.predict_action_chunk(batch)
    torch.testing.assert_close(actions, expected["actions"], rtol=0, atol=4e-6)


@pytest.mark.parametrize("name", FIXTURES)
def test_a_saved_policy_equals_the_one_lerobot_saved(shared, tmp_path, name):
    folder = shared / "fixtures" / "policies" / name / "pretrained_model"
    load_policy(folder).save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in folder.iterdir()}
    for path in tmp_path.glob("*.json"):
        assert json.loads(path.read_text()) == json.loads((folder / path.name).read_text())
    for path in tmp_path.glob("*.safetensors"):
        ours, theirs = load_file(path), load_file(folder / path.name)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], value) for key, value in theirs.items())


def test_draws_not_given_come_from_the_global_generator(golden):
    policy, batch = plain_policy(golden), golden.batch_of(golden.act_config())
    torch.manual_seed(5)
    drawn, _ = policy.training_loss(batch)
    torch.manual_seed(5)
    given, _ = policy.training_loss(batch, {"latent_noise": torch.randn(3, 8)})
    assert torch.equal(drawn, given)


def test_ensembled_actions_are_lerobots(golden):
    policy = plain_policy(golden, temporal_ensemble_coeff=0.01, n_action_steps=1)
    expected = [
        (0.052733, -0.029149, 0.863664, 0.916733),
        (0.243524, -0.268167, 1.088822, 0.968380),
        (0.165387, -0.315507, 1.009832, 0.878924),
    ]
    for step, action in enumerate(expected):
        observation = {
            "observation.state": golden.normal(f"s{step}", 3, 6),
            "observation.environment_state": golden.normal(f"e{step}", 3, 5),
        }
        assert policy.select_action(observation)[0].tolist() == pytest.approx(action, abs=2e-6)


def test_selected_actions_are_the_chunks_first_steps(golden):
    policy, batch = plain_policy(golden, n_action_steps=3), golden.batch_of(golden.act_config())
    first = policy.predict_action_chunk(batch)
    other = batch | {"observation.state": batch["observation.state"] + 1}
    ignored = [policy.select_action(observation) for observation in (batch, other, other)]
    assert torch.equal(torch.stack(ignored, dim=1), first[:, :3])
    assert torch.equal(policy.select_action(other), policy.predict_action_chunk(other)[:, 0])
    policy.reset()
    assert torch.equal(policy.select_action(batch), first[:, 0])


def test_prediction_makes_no_graph_and_restores_the_mode(golden):
    policy, batch = plain_policy(golden, dropout=0.5), golden.batch_of(golden.act_config())
    for training in (True, False):
        policy.network.train(training)
        first, again = (policy.predict_action_chunk(batch) for _ in range(2))
        assert policy.network.training == training
        assert torch.equal(first, again) and not first.requires_grad


def test_the_mode_is_restored_after_a_refused_observation(golden):
    policy = plain_policy(golden).train()
    with pytest.raises(UserError):
        policy.predict_action_chunk({})
    assert policy.network.training


def test_images_as_bytes_and_as_floats_give_the_same(golden):
    cameras = golden.act_config(cameras=True).input_features
    config = golden.act_config(input_features=cameras)
    vectors = {name: feature.shape[0] for name, feature in golden.vectors.items()} | {"action": 4}
    stats = {name: {"mean": np.zeros(size), "std": np.ones(size)} for name, size in vectors.items()}
    images = {name: {"mean": np.full(3, 0.5), "std": np.full(3, 0.25)} for name in cameras}
    policy = build_policy(config, images | stats).eval()
    batch = golden.batch_of(config)
    pixels = {name: (batch[name] * 255).to(torch.uint8) for name in cameras if "images" in name}
    from_bytes = policy.predict_action_chunk(batch | pixels)
    from_floats = policy.predict_action_chunk(
        batch | {name: image / 255 for name, image in pixels.items()}
    )
    torch.testing.assert_close(from_bytes, from_floats, rtol=0, atol=1e-5)


def test_missing_features_are_named(golden):
    policy, batch = plain_policy(golden), golden.batch_of(golden.act_config())
    for name in ("observation.state", "action", "action_is_pad"):
        with pytest.raises(UserError, match=f"lacks {name}; it has"):
            policy.training_loss({key: batch[key] for key in batch if key != name})
    with pytest.raises(UserError, match=r"lacks observation\.state"):
        policy.predict_action_chunk(batch | {"observation.state": None})


def test_wrong_shapes_are_told_with_both_sizes(golden):
    policy, batch = plain_policy(golden), golden.batch_of(golden.act_config())
    with pytest.raises(UserError, match=r"state has shape \(3, 5\), but .* \(samples, 6\)$"):
        policy.predict_action_chunk(batch | {"observation.state": torch.zeros(3, 5)})
    with pytest.raises(UserError, match=r"\(6,\).*\(samples, 6\); add a leading sample axis"):
        policy.predict_action_chunk(batch | {"observation.state": torch.zeros(6)})
    with pytest.raises(UserError, match=r"action has shape \(3, 9, 4\).*\(samples, 8, 4\)"):
        policy.training_loss(batch | {"action": torch.zeros(3, 9, 4)})


def test_values_that_are_no_tensors_are_refused(golden):
    policy, batch = plain_policy(golden), golden.batch_of(golden.act_config())
    with pytest.raises(UserError, match=r"observation\.state must be a tensor, not ndarray"):
        policy.predict_action_chunk(batch | {"observation.state": np.zeros((3, 6))})


def test_observations_arrive_under_the_names_of_the_rename_map(golden, tmp_path):
    policy, batch = plain_policy(golden), golden.batch_of(golden.act_config())
    policy.save(tmp_path)
    path = tmp_path / "policy_preprocessor.json"
    path.write_text(
        path.read_text().replace(
            '"rename_map": {}', '"rename_map": {"observation.joints": "observation.state"}'
        )
    )
    observation = dict(batch)
    observation["observation.joints"] = observation.pop("observation.state")
    renamed = load_policy(tmp_path).predict_action_chunk(observation)
    assert torch.equal(renamed, policy.predict_action_chunk(batch))


def test_a_lone_action_key_of_none_is_no_observation(golden):
    policy, batch = plain_policy(golden), golden.batch_of(golden.act_config())
    chunk = policy.predict_action_chunk(batch | {"action": None, "task": ["push"] * 3})
    assert torch.equal(chunk, policy.predict_action_chunk(batch))
