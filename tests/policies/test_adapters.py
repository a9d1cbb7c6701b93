"""Adapters in a network, compared with what peft makes of the same files."""

from copy import deepcopy
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
import torch

from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.config.sections.peft import PeftConfig
from manyhands.errors import ConfigError, UserError
from manyhands.lerobot_format.policy.folder import file_name, saved_tensors
from manyhands.policies.adapters import adapt, merge, new_settings, reject_batch_statistics
from manyhands.policies.build import build_policy
from manyhands.policies.load import load_policy
from manyhands.policies.policy import Policy
from manyhands.types import Batch

peft = pytest.importorskip("peft", reason="pip install 'manyhands[smolvla]'")

ACT_LAYERS = ["linear1", "linear2", "action_head"]
CAMERA = "observation.images.top"


@pytest.fixture
def act(golden, tmp_path) -> Policy:
    """An ACT that a folder holds too."""
    policy = build_policy(golden.act_config(), stats={})
    golden.fill(policy.network)
    policy.save(tmp_path / "base")
    policy.config = replace(policy.config, pretrained_path=tmp_path / "base")
    return policy.eval()


@pytest.fixture
def smolvla(tiny_vlm, tmp_path) -> Policy:
    """A SmolVLA that a folder holds too."""
    sizes = {"num_vlm_layers": 2, "chunk_size": 4, "n_action_steps": 4, "max_state_dim": 8}
    config = SmolVLAConfig(
        input_features={
            "observation.state": PolicyFeature(FeatureType.STATE, (4,)),
            CAMERA: PolicyFeature(FeatureType.VISUAL, (3, 32, 32)),
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (3,))},
        vlm_model_name=str(tiny_vlm),
        random_vlm=True,
        resize_imgs_with_padding=(32, 32),
        **sizes,
    )
    policy = build_policy(config, stats={})
    policy.save(tmp_path / "base")
    policy.config = replace(config, pretrained_path=tmp_path / "base")
    return policy.eval()


def adapted(policy: Policy, **values: object) -> Policy:
    """The policy with adapters that make a difference."""
    adapt(policy, new_settings(PeftConfig(**values), policy.config))
    made = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in policy.network.named_parameters():
            if file_name(name) is not None:
                weight.add_(0.1 * torch.randn(weight.shape, generator=made))
    return policy


def observation_of(policy: Policy) -> Batch:
    made = torch.Generator().manual_seed(0)
    features = policy.config.input_features.items()
    values = {name: torch.rand(2, *each.shape, generator=made) for name, each in features}
    return values | {"task": ["stack", "pick up the cube"]}


def chunk_of(policy: Policy) -> torch.Tensor:
    torch.manual_seed(0)
    return policy.predict_action_chunk(observation_of(policy))


def seen_by_peft(policy: Policy, folder: Path) -> Policy:
    """A policy without adapters, with those that peft itself reads from a folder."""
    peft.PeftModel.from_pretrained(policy.network, str(folder))
    return policy


SUBJECTS = {
    "act": {
        "target_modules": ACT_LAYERS,
        "full_training_modules": ["encoder_robot_state_input_proj"],
    },
    "smolvla": {},
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_peft_reads_what_is_saved_here(request, tmp_path, name):
    policy: Policy = request.getfixturevalue(name)
    bare = chunk_of(policy)
    plain = deepcopy(policy)
    made = chunk_of(adapted(policy, r=4, lora_alpha=16, **SUBJECTS[name]))
    assert not torch.allclose(made, bare, atol=1e-3)
    policy.save(tmp_path / "adapters")
    torch.testing.assert_close(chunk_of(seen_by_peft(plain, tmp_path / "adapters")), made)
    torch.testing.assert_close(chunk_of(load_policy(tmp_path / "adapters", device="cpu")), made)


@pytest.mark.parametrize("name", SUBJECTS)
def test_what_peft_saves_is_read_here(request, tmp_path, name):
    policy: Policy = request.getfixturevalue(name)
    settings = new_settings(PeftConfig(r=4, **SUBJECTS[name]), policy.config)
    plain = deepcopy(policy)
    theirs = peft.PeftConfig.from_peft_type(**settings | {"base_model_name_or_path": None})
    wrapped = peft.get_peft_model(plain.network, theirs)
    wrapped.peft_config["default"].base_model_name_or_path = str(policy.config.pretrained_path)
    with torch.no_grad():
        for weight in wrapped.parameters():
            weight.add_(0.1 * torch.randn_like(weight) if weight.requires_grad else 0)
    adapt(policy, settings)
    policy.save(tmp_path / "theirs")
    (tmp_path / "theirs/adapter_model.safetensors").unlink()
    wrapped.save_pretrained(str(tmp_path / "theirs"))
    loaded = load_policy(tmp_path / "theirs", device="cpu")
    torch.testing.assert_close(chunk_of(loaded), chunk_of(plain))


def test_only_adapters_and_modules_asked_for_are_trained(act):
    whole = "encoder_robot_state_input_proj"
    adapted(act, target_modules=ACT_LAYERS, full_training_modules=[whole])
    trained = [name for name, each in act.network.named_parameters() if each.requires_grad]
    assert len(trained) == len(saved_tensors(act.network))
    assert all("lora_" in name or whole in name for name in trained)


def test_adapters_are_in_full_precision_whatever_lies_below(act):
    act.network.to(torch.bfloat16)
    adapted(act, target_modules=ACT_LAYERS, full_training_modules=["encoder_latent_input_proj"])
    assert {each.dtype for each in saved_tensors(act.network).values()} == {torch.float32}
    lower = [each for each in act.network.parameters() if not each.requires_grad]
    assert {each.dtype for each in lower} == {torch.bfloat16}


def test_merging_leaves_the_names_and_the_actions(act):
    names = [*act.network.state_dict()]
    made = chunk_of(adapted(act, target_modules=ACT_LAYERS))
    merge(act)
    assert [*act.network.state_dict()] == names and act.adapters is None
    torch.testing.assert_close(chunk_of(act), made, rtol=0, atol=1e-5)


def test_adapters_start_as_they_are_asked_to_and_change_nothing_yet(act):
    before, starts = chunk_of(act), []
    for init_type in (None, "gaussian", "orthogonal"):
        torch.manual_seed(0)
        policy = deepcopy(act)
        config = PeftConfig(target_modules=["action_head"], init_type=init_type)
        adapt(policy, new_settings(config, policy.config))
        torch.testing.assert_close(chunk_of(policy), before, rtol=0, atol=1e-5)
        starts.append(next(iter(saved_tensors(policy.network).values())))
    assert all(not torch.equal(*pair) for pair in combinations(starts, 2))


def test_a_run_stands_for_the_checkpoint_that_is_its_newest_now(act, tmp_path):
    run = tmp_path / "run/checkpoints"
    act.save(run / "000001/pretrained_model")
    (run / "last").symlink_to("000001")
    config = replace(act.config, pretrained_path=tmp_path / "run")
    settings = new_settings(PeftConfig(target_modules=ACT_LAYERS), config)
    assert settings["base_model_name_or_path"] == str(run / "000001/pretrained_model")
    named = replace(act.config, pretrained_path=Path("me/policy"), pretrained_revision="v2")
    settings = new_settings(PeftConfig(target_modules=ACT_LAYERS), named)
    assert (settings["base_model_name_or_path"], settings["revision"]) == ("me/policy", "v2")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            {"target_modules": ["linear1", "linear9"]},
            "target_modules: the policy has no layer linear9",
        ),
        ({"target_modules": "linear1"}, r"do not match the policy.*action_head.*not found"),
        ({"target_modules": ["self_attn"]}, r"do not match the policy.*not supported"),
    ],
)
def test_layers_that_cannot_be_adapted_are_told(act, values, told):
    with pytest.raises(UserError, match=f"(?s){told}"):
        adapted(act, **values)


def test_statistics_that_are_not_saved_are_refused(act):
    reject_batch_statistics(act.network)
    with pytest.raises(ConfigError, match=r"batch norms such as 1\."):
        reject_batch_statistics(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)))


def test_without_peft_it_is_told_what_to_install(act, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "peft", None)
    with pytest.raises(UserError, match=r"adapters needs the package peft.*manyhands\[smolvla\]"):
        adapted(act, target_modules=ACT_LAYERS)
