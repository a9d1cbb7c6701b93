"""The script that another Python runs, with a small stand-in for LeRobot."""

import io
import json
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from manyhands_bench.inference import reference_inference


class Policy(torch.nn.Linear):
    """Counts its predictions; a queue that is not reset predicts nothing."""

    num_resets = 0

    def __init__(self, config):
        super().__init__(3, 2)

    def reset(self):
        Policy.num_resets += 1

    def select_action(self, batch):
        assert batch["task"] == ["go", "go"]
        assert batch["observation.image"].min() >= 0 and batch["observation.image"].max() <= 1
        return self(batch["observation.state"])


@pytest.fixture
def lerobot(monkeypatch):
    factory = ModuleType("lerobot.policies.factory")
    factory.get_policy_class = lambda kind: Policy
    factory.make_pre_post_processors = lambda config, pretrained_path: (dict, lambda action: action)
    configs = ModuleType("lerobot.configs.policies")
    loaded = SimpleNamespace(type="act", device=None)
    configs.PreTrainedConfig = SimpleNamespace(from_pretrained=lambda folder: loaded)
    monkeypatch.setitem(sys.modules, "lerobot.policies.factory", factory)
    monkeypatch.setitem(sys.modules, "lerobot.configs.policies", configs)


def test_every_timed_prediction_is_a_new_chunk(lerobot, monkeypatch, capsys):
    request = {
        "folder": "policy",
        "device": "cpu",
        "shapes": {
            "observation.state": ["float32", [2, 3]],
            "observation.image": ["uint8", [2, 3, 4, 4]],
        },
        "task": "go",
        "num_chunks": 4,
        "warm_up": 3,
    }
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(request)))
    reference_inference.main()
    assert len(json.loads(capsys.readouterr().out)["chunk_s"]) == 4
    assert Policy.num_resets == 7
