"""Features are proposed by the names that recorders use."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from manyhands.data.importing.mapping import FeatureMapping
from manyhands.data.importing.proposal import (
    camera_key,
    check_complete,
    chosen_mapping,
    propose_mapping,
)
from manyhands.data.importing.source import Column
from manyhands.errors import ConfigError, DatasetError

IMAGE = Column("uint8", (16, 24, 3))
TEXT = Column("string", ())
SCALAR = Column("float32", ())


def vector(size: int) -> Column:
    return Column("float32", (size,))


@dataclass
class Listed:
    """A source of which only the columns are known."""

    columns: dict[str, Column]
    fps: float | None = None
    path: Path = Path("demo")
    format: str = "robomimic"
    files: list[Path] = field(default_factory=list)
    num_episodes: int = 1
    notes: list[str] = field(default_factory=list)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            {
                "obs/robot0_eef_pos": vector(3),
                "obs/robot0_eef_quat": vector(4),
                "obs/robot0_joint_pos": vector(7),
                "obs/object": vector(9),
                "obs/agentview_image": IMAGE,
                "next_obs/agentview_image": IMAGE,
                "actions": vector(7),
                "states": vector(30),
            },
            {
                "observation.state": "obs/robot0_eef_pos + obs/robot0_eef_quat",
                "observation.images.agentview": "obs/agentview_image",
                "action": "actions",
            },
        ),
        (
            {"obs/robot0_eef_pos": vector(3), "obs/object": vector(9), "actions": vector(7)},
            {
                "observation.state": "obs/robot0_eef_pos",
                "observation.environment_state": "obs/object",
                "action": "actions",
            },
        ),
        (
            {
                "observations/qpos": vector(14),
                "observations/qvel": vector(14),
                "observations/images/cam_high": IMAGE,
                "action": vector(14),
            },
            {
                "observation.state": "observations/qpos",
                "observation.images.cam_high": "observations/images/cam_high",
                "action": "action",
            },
        ),
        (
            {"data/img": IMAGE, "data/state": vector(5), "data/action": vector(2)},
            {
                "observation.state": "data/state",
                "observation.image": "data/img",
                "action": "data/action",
            },
        ),
        (
            {
                "steps/observation/image": IMAGE,
                "steps/observation/wrist_image": IMAGE,
                "steps/observation/pose": vector(6),
                "steps/action/world_vector": vector(3),
                "steps/action/open": SCALAR,
                "steps/reward": SCALAR,
                "steps/language_embedding": vector(512),
            },
            {
                "observation.state": "steps/observation/pose",
                "observation.image": "steps/observation/image",
                "observation.images.wrist": "steps/observation/wrist_image",
                "action": "steps/action/world_vector + steps/action/open",
                "next.reward": "steps/reward",
            },
        ),
    ],
)
def test_columns_are_proposed_by_their_names(columns, expected):
    assert propose_mapping(Listed(columns)).document()["features"] == expected


def test_cameras_of_the_same_name_are_told_apart():
    columns = {"left/image": IMAGE, "right/image": IMAGE, "action": vector(2)}
    features = propose_mapping(Listed(columns)).features
    assert [*features][:2] == ["observation.images.left_image", "observation.images.right_image"]
    assert camera_key("obs/rgb") == "observation.image"


def test_a_source_without_actions_needs_a_mapping():
    with pytest.raises(DatasetError, match=r"no column is named action.*pose \(6 float32\)"):
        propose_mapping(Listed({"pose": vector(6)}))
    given = {"features": {"action": "pose"}}
    assert chosen_mapping(Listed({"pose": vector(6)}), given).columns == {"pose"}


def test_what_is_given_wins_over_what_is_recorded():
    source = Listed({"action": vector(2), "task": TEXT}, fps=29.97)
    mapping = chosen_mapping(source, {})
    assert (mapping.fps, mapping.task, mapping.task_column) == (30, None, "task")
    mapping = chosen_mapping(source, {"fps": 15, "task": "go"})
    assert (mapping.fps, mapping.task, mapping.task_column) == (15, "go", None)


def test_all_that_is_missing_is_told_together():
    source = Listed({"action": vector(2)}, fps=12.5)
    with pytest.raises(ConfigError) as caught:
        check_complete(chosen_mapping(source, {}), source)
    assert caught.value.faults == [
        "demo does not hold its frame rate as an integer (it measures 12.5). Set --fps=N",
        "demo does not describe its task. Set --task='TEXT'",
    ]
    check_complete(FeatureMapping({}, fps=3, task="go"), source)
