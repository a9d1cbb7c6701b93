"""Predictions as CUDA graphs give what the network gives, and follow its weights."""

import pytest
import torch
from torch import nn

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.policies.build import build_policy
from manyhands.policies.captured_prediction import (
    MAX_GRAPHS,
    CapturedPrediction,
    cloned,
    signature_of,
)
from manyhands.policies.policy import evaluating
from manyhands.policies.synthetic import (
    SyntheticDataConfig,
    synthetic_batch,
    synthetic_stats,
    with_synthetic_features,
)

SHAPES = SyntheticDataConfig(cameras=1, image_size=(32, 40), state_dim=3, action_dim=2)
CONFIGS = {
    "act": ActConfig(dim_model=32, n_heads=2, dim_feedforward=64, pretrained_backbone_weights=None),
    "diffusion": DiffusionConfig(
        down_dims=(16, 32),
        n_groups=4,
        num_inference_steps=4,
        pretrained_backbone_weights=None,
    ),
}
NEEDS_A_GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]


class Doubling(nn.Module):
    """A network that notes its calls and, if asked, reads a value on the host."""

    def __init__(self, reads_values: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(2.0))
        self.reads_values = reads_values
        self.num_calls = 0

    def predict(self, observation, draws):
        self.num_calls += 1
        if self.reads_values:
            observation["x"].sum().item()
        return observation["x"] * self.weight + draws.get("noise", 0)


def test_shapes_and_types_make_a_signature_and_texts_do_not():
    ones = torch.ones(2, 3)
    assert signature_of({"x": ones, "task": ["a"]}) == signature_of({"task": ["b"], "x": ones * 2})
    assert signature_of({"x": ones}) != signature_of({"x": ones.half()})
    assert signature_of({"x": ones}) != signature_of({"x": ones[:1]})
    assert signature_of({"x": ones}) != signature_of({"y": ones})


def test_cloned_tensors_are_their_own():
    values = {"x": torch.ones(2), "task": ["a"]}
    copy = cloned(values)
    copy["x"].zero_()
    assert values["x"].sum() == 2
    assert copy["task"] == ["a"]


def test_a_single_prediction_is_the_networks_own():
    network = Doubling()
    found = CapturedPrediction(network)({"x": torch.ones(3)}, {"noise": torch.ones(3)})
    assert found.tolist() == [3.0] * 3
    assert network.num_calls == 1


@pytest.fixture
def policy(request):
    torch.manual_seed(0)
    config = with_synthetic_features(CONFIGS[request.param], SHAPES)
    return build_policy(config, synthetic_stats(config)).to("cuda:0").eval()


class TestOnAGpu:
    """What only a real device can show."""

    pytestmark = NEEDS_A_GPU

    @pytest.mark.parametrize("policy", list(CONFIGS), indirect=True)
    def test_chunks_are_those_of_the_network(self, policy):
        observations = [self.observation(policy, seed) for seed in range(4)]
        expected = []
        for seed, observation in enumerate(observations):
            torch.manual_seed(seed)
            with evaluating(policy.network):
                prepared = policy.prepare_observation(observation)
                expected.append(policy.network.predict(prepared, {}).cpu())
        for seed, observation in enumerate(observations):
            torch.manual_seed(seed)
            found = policy.predict_action_chunk(observation)
            scaled = policy._unnormalizer.inverse("action", expected[seed].cuda()).cpu()
            torch.testing.assert_close(found, scaled, rtol=1e-5, atol=1e-5)
        assert len(policy._captured._graphs) == 1

    @pytest.mark.parametrize("policy", ["act"], indirect=True)
    def test_weights_that_change_in_place_are_followed(self, policy):
        observation = self.observation(policy, 0)
        for _ in range(3):
            before = policy.predict_action_chunk(observation)
        with torch.no_grad():
            for weight in policy.network.parameters():
                weight.mul_(1.01)
        after = policy.predict_action_chunk(observation)
        policy._captured = None
        assert not torch.equal(before, after)
        torch.testing.assert_close(after, policy.predict_action_chunk(observation))

    @pytest.mark.parametrize("policy", ["act"], indirect=True)
    def test_another_batch_size_has_a_graph_of_its_own_and_few_are_held(self, policy):
        for size in range(1, MAX_GRAPHS + 3):
            for _ in range(3):
                found = policy.predict_action_chunk(self.observation(policy, 0, size))
            assert len(found) == size
        assert len(policy._captured._graphs) == MAX_GRAPHS

    def test_a_network_that_reads_values_on_the_host_is_not_captured(self):
        network = Doubling(reads_values=True).cuda()
        predict = CapturedPrediction(network)
        with torch.no_grad():
            for number in range(4):
                values = torch.full((3,), float(number), device="cuda")
                assert predict({"x": values}, {}).tolist() == [2.0 * number] * 3
        assert not predict._graphs
        torch.ones(2, device="cuda").sum().item()

    def observation(self, policy, seed, num_samples=2):
        torch.manual_seed(100 + seed)
        batch = synthetic_batch(policy.config, num_samples, torch.device("cpu"))
        state = batch["observation.state"]
        batch["observation.state"] = torch.randn(state.shape)
        return {name: value for name, value in batch.items() if not name.startswith("action")}
