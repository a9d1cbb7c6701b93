"""The policy as users hold it: raw values in, raw values out, and the folder it writes."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from manyhands.draws.generator import GeneratorSource
from manyhands.errors import UserError
from manyhands.policies.build import build_policy
from manyhands.policies.load import load_policy


def plain_policy(golden, **changes):
    """A policy by formula whose values are not scaled."""
    policy = build_policy(golden.act_config(**changes), stats={})
    golden.fill(policy.network)
    return policy


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


class _Rounding(TorchDispatchMode):
    """Notes operations that bring numbers of double precision to a lower one."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **kwargs or {})
        before = {each.dtype for each in tree_leaves((args, kwargs)) if torch.is_tensor(each)}
        after = {each.dtype for each in tree_leaves(result) if torch.is_tensor(each)}
        if torch.float64 in before and after & {torch.float32, torch.bfloat16, torch.float16}:
            self.found.add(str(func))
        return result


@pytest.mark.parametrize("kind", ["act", "act with cameras", "diffusion"])
def test_in_double_precision_nothing_is_rounded(golden, kind):
    config = {
        "act": lambda: golden.act_config(),
        "act with cameras": lambda: golden.act_config(cameras=True),
        "diffusion": lambda: golden.diffusion_config(cameras=True, down_dims=(16, 32)),
    }[kind]()
    policy = build_policy(config, stats={}).to("cpu", torch.float64).train()
    batch = golden.batch_of(config)
    with _Rounding() as rounding:
        loss, _ = policy.training_loss(
            batch, policy.network.draw(GeneratorSource(len(batch["action"])))
        )
        loss.backward()
    assert loss.dtype == torch.float64
    assert {weight.grad.dtype for weight in policy.network.parameters()} == {torch.float64}
    assert rounding.found == set()
    assert policy.to("cpu").dtype == torch.float64


def test_a_policy_of_double_precision_is_saved_whole_and_loads_in_single(golden, tmp_path):
    policy = plain_policy(golden).to("cpu", torch.float64)
    policy.save(tmp_path / "saved")
    loaded = load_policy(tmp_path / "saved")
    weights = load_file(tmp_path / "saved" / "model.safetensors")
    for name, value in loaded.network.state_dict().items():
        assert torch.equal(weights[name], policy.network.state_dict()[name])
        assert torch.equal(value, weights[name].float())
