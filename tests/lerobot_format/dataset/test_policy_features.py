"""What a policy can read and predict."""

from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.lerobot_format.dataset.info import Feature, read_info
from manyhands.lerobot_format.dataset.meta import policy_features


def test_each_kind_of_feature_is_told_by_its_key_and_dtype():
    inputs, outputs = policy_features(
        {
            "observation.environment_state": Feature("float32", (5,)),
            "observation.state": Feature("float32", (4,)),
            "observation.grid": Feature("float32", (2, 3)),
            "front": Feature("video", (48, 64, 3), ["height", "width", "channels"]),
            "observation.images.top": Feature(
                "image", (3, 48, 64), ["channels", "height", "width"]
            ),
            "action": Feature("float32", (2,)),
            "action.gripper": Feature("float32", (1,)),
            "next.reward": Feature("float32", (1,)),
            "index": Feature("int64", (1,)),
        }
    )
    assert inputs == {
        "observation.environment_state": PolicyFeature(FeatureType.ENV, (5,)),
        "observation.state": PolicyFeature(FeatureType.STATE, (4,)),
        "observation.grid": PolicyFeature(FeatureType.STATE, (2, 3)),
        "front": PolicyFeature(FeatureType.VISUAL, (3, 48, 64)),
        "observation.images.top": PolicyFeature(FeatureType.VISUAL, (3, 48, 64)),
    }
    assert list(inputs) == [
        "observation.environment_state",
        "observation.state",
        "observation.grid",
        "front",
        "observation.images.top",
    ]
    assert outputs == {
        "action": PolicyFeature(FeatureType.ACTION, (2,)),
        "action.gripper": PolicyFeature(FeatureType.ACTION, (1,)),
    }


def test_pusht_has_a_camera_a_state_and_an_action(shared):
    inputs, outputs = policy_features(read_info(shared / "data" / "pusht").features)
    assert inputs["observation.image"] == PolicyFeature(FeatureType.VISUAL, (3, 96, 96))
    assert inputs["observation.state"] == PolicyFeature(FeatureType.STATE, (2,))
    assert outputs == {"action": PolicyFeature(FeatureType.ACTION, (2,))}
