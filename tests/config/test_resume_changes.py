"""What may change when a run goes on."""

from dataclasses import replace

import pytest

from manyhands.config.files.config_files import to_json
from manyhands.config.policies.act import ActConfig
from manyhands.config.resume_changes import change_lines, changes_since, fixed_change_faults
from manyhands.config.runs.run_dir import OWN_CONFIG
from manyhands.config.sections.optim import AdamWConfig
from manyhands.config.sections.peft import PeftConfig
from manyhands.config.train import TrainConfig

RUN = TrainConfig(policy=ActConfig(), optimizer=AdamWConfig(lr=1e-4), steps=10)


@pytest.fixture
def checkpoint(tmp_path):
    (tmp_path / "training_state").mkdir()
    (tmp_path / "training_state" / OWN_CONFIG).write_text(to_json(RUN))
    return tmp_path


def test_the_same_run_has_no_changes(checkpoint):
    assert changes_since(checkpoint, RUN) == {}
    assert changes_since(checkpoint, replace(RUN, resume=str(checkpoint))) == {}


def test_a_changed_learning_rate_takes_effect_and_is_told(checkpoint):
    changes = changes_since(checkpoint, replace(RUN, optimizer=AdamWConfig(lr=3e-4), steps=20))
    assert changes == {"optimizer.lr": (1e-4, 3e-4), "steps": (10, 20)}
    assert list(fixed_change_faults(changes)) == []
    assert (
        change_lines(changes)[0]
        == "changed since the checkpoint: --optimizer.lr from 0.0001 to 0.0003"
    )


@pytest.mark.parametrize(
    ("values", "is_free"),
    [
        ({"n_heads": 4}, False),
        ({"dim_model": 64}, False),
        ({"pre_norm": True}, False),
        ({"dropout": 0.3}, True),
        ({"device": "cpu"}, True),
        ({"optimizer_lr": 3e-4}, True),
        ({"n_action_steps": 50}, True),
    ],
)
def test_what_the_weights_mean_cannot_change(checkpoint, values, is_free):
    config = replace(RUN, policy=replace(RUN.policy, **values))
    faults = list(fixed_change_faults(changes_since(checkpoint, config)))
    assert (faults == []) is is_free
    if not is_free:
        (name,) = values
        assert f"--policy.{name}={values[name]} cannot change" in faults[0]


def test_adapters_can_neither_come_nor_change_on_the_way(checkpoint):
    changes = changes_since(checkpoint, replace(RUN, peft=PeftConfig(r=4)))
    assert any("--peft.r=4 cannot change" in fault for fault in fixed_change_faults(changes))


def test_a_checkpoint_of_lerobots_tells_of_no_changes(tmp_path):
    assert changes_since(tmp_path, RUN) == {}
