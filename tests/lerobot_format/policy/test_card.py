"""The card of a published policy."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.sections.optim import AdamWConfig
from manyhands.config.train import DatasetConfig, TrainConfig
from manyhands.lerobot_format.policy.card import TrainingRecord, model_card

POLICY = ActConfig(
    input_features={
        "observation.state": PolicyFeature(FeatureType.STATE, (6,)),
        "observation.images.top": PolicyFeature(FeatureType.VISUAL, (3, 480, 640)),
    },
    output_features={"action": PolicyFeature(FeatureType.ACTION, (6,))},
    tags=["so101", "robotics"],
    license="mit",
)
CONFIG = TrainConfig(
    dataset=DatasetConfig(repo_id="me/pick", root=Path("/home/me/secret/pick")),
    policy=POLICY,
    steps=20_000,
    seed=7,
    optimizer=AdamWConfig(lr=1e-5),
)
FACTS = {
    "versions": {"manyhands": "0.1.0", "torch": "2.13.0"},
    "dataset": {
        "root": "/home/me/secret/pick",
        "fingerprint": "0123456789abcdef",
        "num_episodes": 50,
        "num_frames": 12_345,
        "fps": 30.0,
    },
    "policy": {"num_parameters": 51_597_190},
    "batch": {"per_process": 8, "processes": 4, "accumulation": 2, "effective": 64},
    "precision": "bfloat16 autocast",
}
ROWS = [
    {"step": 1, "loss": 9.0, "held_out_loss": 8.0},
    {"step": 15_000, "held_out_loss": 0.25, "held_out_loss_ema": 0.2},
    {"step": 20_000, "loss": 0.125},
]
RECORD = TrainingRecord(step=20_000, facts=FACTS, rows=ROWS)


def front_matter(card: str) -> dict:
    empty, front, _ = card.split("---\n", 2)
    assert empty == ""
    return yaml.safe_load(front)


def test_the_hub_learns_library_task_license_data_and_tags():
    assert front_matter(model_card("me/mine", CONFIG, RECORD)) == {
        "library_name": "lerobot",
        "pipeline_tag": "robotics",
        "model_name": "act",
        "license": "mit",
        "datasets": ["me/pick"],
        "tags": ["act", "robotics", "lerobot", "manyhands", "so101"],
    }


@pytest.mark.parametrize(
    "fact",
    [
        "# mine",
        "| reads | `observation.images.top` | VISUAL | 3 x 480 x 640 |",
        "| predicts | `action` | ACTION | 6 |",
        "| dataset | [me/pick](https://huggingface.co/datasets/me/pick) |",
        "| episodes | 50 |",
        "| optimizer steps | 20,000 |",
        "| samples per step | 64 (8 per process x 4 processes x 2 accumulation) |",
        "| optimizer | adamw, lr 1e-05 |",
        "| seed | 7 |",
        "| final loss | 0.125 (step 20000) |",
        "| final held-out loss | 0.25 (step 15000) |",
        "| final held-out loss of the EMA | 0.2 (step 15000) |",
        "| versions | manyhands 0.1.0, torch 2.13.0 |",
        'manyhands.load_policy("me/mine")',
        "manyhands eval --policy.path=me/mine",
        "lerobot-eval --policy.path=me/mine",
        "lerobot-record --policy.path=me/mine",
    ],
)
def test_the_page_tells_what_is_known(fact):
    assert fact in model_card("me/mine", CONFIG, RECORD)


def test_a_checkpoint_in_the_middle_of_a_run_has_its_own_step_and_loss():
    card = model_card("me/mine", CONFIG, TrainingRecord.until(15_000, FACTS, ROWS))
    assert "| optimizer steps | 15,000 |" in card
    assert "| final loss | 9 (step 1) |" in card
    assert "20,000" not in card and "0.125" not in card


def test_what_a_batch_came_to_is_told():
    batch = {**FACTS["batch"], "effective": 61, "is_even": False, "lr_factor": 2.0}
    card = model_card("me/mine", CONFIG, TrainingRecord(facts={**FACTS, "batch": batch}))
    assert "61 (at most 8 per process x 4 processes x 2 accumulation)" in card
    assert "adamw, lr 2e-05" in card


def test_what_is_not_known_is_left_out():
    nameless = replace(POLICY, tags=None, license=None)
    dataset = DatasetConfig(root=Path("/home/me/pick"))
    card = model_card("me/mine", TrainConfig(dataset=dataset, policy=nameless))
    assert front_matter(card).keys() == {"library_name", "pipeline_tag", "model_name", "tags"}
    assert not any(
        word in card for word in ("None", "| dataset", "loss", "versions", "pretrained weights")
    )


def test_no_path_of_the_machine_is_published():
    origin = replace(POLICY, pretrained_path=Path("/home/me/secret/base"))
    card = model_card("me/mine", replace(CONFIG, policy=origin), RECORD)
    assert "secret" not in card
    assert "| pretrained weights | base |" in card


def test_of_a_mixture_only_the_datasets_on_the_hub_are_named():
    mix = DatasetConfig(mix={"me/pick": 1.0, "data/local": 2.0, "/data/other": 1.0})
    facts = {"dataset": {"root": "/cache/datasets--me--pick, data/local, /data/other"}}
    card = model_card("me/m", replace(CONFIG, dataset=mix), TrainingRecord(facts=facts))
    assert front_matter(card)["datasets"] == ["me/pick"]


def test_averaged_weights_are_called_so():
    assert "exponential moving average" in model_card(
        "me/mine-ema", CONFIG, RECORD, is_average=True
    )
    assert "exponential moving average" not in model_card("me/mine", CONFIG, RECORD)


def test_a_type_of_another_package_needs_no_title():
    class OwnConfig(ActConfig):
        type = "own"

    card = model_card("me/mine", replace(CONFIG, policy=OwnConfig()), RECORD)
    assert "A robot policy: own," in card
