"""A folder saved here is the folder LeRobot saves: files, keys, their order, types, bytes."""

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from manyhands.policies.load import load_policy

NAMES = ["act_vae", "act_plain_prenorm", "diffusion_ddpm", "diffusion_ddim_sample"]
SMOLVLA = ["smolvla_default", "smolvla_selfattn"]
RESTATED = {
    "replace_final_stride_with_dilation": (False, 0),
    "optimizer_grad_clip_norm": (10, 10.0),
}
"""Values LeRobot itself writes otherwise once it has read them: its own, and ours."""


def values_of(document: Any, name: str = "") -> list[tuple[str, Any]]:
    """Every value with its place, in the order of the file."""
    if isinstance(document, dict):
        inner = [(f"{name}.{key}", value) for key, value in document.items()]
    elif isinstance(document, list):
        inner = [(f"{name}[{number}]", value) for number, value in enumerate(document)]
    else:
        return [(name, (type(document), document))]
    own = [(name, type(document))]
    return own + [each for key, value in inner for each in values_of(value, key)]


def tensors_of(path: Path) -> dict[str, Any]:
    return {
        name: (tensor.dtype, tensor.shape, tensor.numpy().tobytes())
        for name, tensor in load_file(path).items()
    }


@pytest.fixture(params=NAMES + SMOLVLA)
def theirs(request, shared, monkeypatch) -> Path:
    if request.param in SMOLVLA:
        pytest.importorskip("transformers", reason="pip install 'manyhands[smolvla]'")
        # Their configurations name the vision-language model as it lies beside them.
        monkeypatch.chdir(shared / "fixtures" / "policies")
    return shared / "fixtures" / "policies" / request.param / "pretrained_model"


def test_a_policy_of_lerobot_saved_again_is_the_same_folder(theirs, tmp_path):
    load_policy(theirs, device="cpu").save(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(
        each.name for each in theirs.iterdir()
    )
    for path in tmp_path.glob("*.json"):
        document = json.loads((theirs / path.name).read_text())
        for key, (before, after) in RESTATED.items():
            if path.name == "config.json" and key in document:
                assert document[key] is before
                document[key] = after
        assert values_of(json.loads(path.read_text())) == values_of(document)
    for path in tmp_path.glob("*.safetensors"):
        assert tensors_of(path) == tensors_of(theirs / path.name)


CHANGED = {"device", "push_to_hub", "pretrained_backbone_weights"}
"""What a saved policy says of itself, whatever it was made from: where it is, that it is nobody's
to publish, and that it needs no other weights."""


def test_what_a_saved_policy_restates_is_all_that_changes(theirs, tmp_path):
    document = json.loads((theirs / "config.json").read_text())
    changes = {
        "device": "cuda:3",
        "push_to_hub": True,
        "repo_id": "me/policy",
        "private": False,
        "tags": ["robot"],
        "license": "mit",
        "pretrained_path": "somewhere/else",
        "pretrained_revision": "v1",
        "pretrained_backbone_weights": "ResNet18_Weights.IMAGENET1K_V1",
    }
    changes = {key: value for key, value in changes.items() if key in document}
    own = tmp_path / "own"
    own.mkdir()
    for path in theirs.iterdir():
        (own / path.name).write_bytes(path.read_bytes())
    (own / "config.json").write_text(json.dumps(document | changes))
    load_policy(own, device="cpu").save(tmp_path / "saved")
    saved = json.loads((tmp_path / "saved" / "config.json").read_text())
    expected = document | changes | {"device": "cpu", "push_to_hub": False}
    expected |= dict.fromkeys(changes.keys() & {"pretrained_backbone_weights"})
    assert [key for key in expected if saved[key] != expected[key]] == []
    assert {key for key in changes if saved[key] != changes[key]} == CHANGED & changes.keys()
