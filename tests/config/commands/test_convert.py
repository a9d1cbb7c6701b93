"""What a conversion needs, said before anything is read."""

from pathlib import Path

import pytest

from manyhands.config.commands.convert import ConvertConfig
from manyhands.config.sections.dataset import CopiedDatasetConfig

SOURCE = CopiedDatasetConfig(root=Path("old"))
OUTPUT = Path("new")


@pytest.mark.parametrize(
    "config",
    [
        ConvertConfig(dataset=SOURCE, output=OUTPUT),
        ConvertConfig(dataset=CopiedDatasetConfig(repo_id="a/b", revision="v2"), output=OUTPUT),
        ConvertConfig(dataset=SOURCE, output=OUTPUT, episodes=[1, 2], exclude_episodes=[2]),
        ConvertConfig(merge=["a", "b"], output=OUTPUT, allow_mixed_robots=True),
        ConvertConfig(checkpoint=Path("run")),
        ConvertConfig(checkpoint=Path("run"), output=OUTPUT),
        ConvertConfig(from_=Path("a.hdf5"), output=OUTPUT, fps=20, task="pick", episodes=[1]),
        ConvertConfig(from_=Path("a.hdf5"), propose=Path("map.yaml")),
        ConvertConfig(dataset=SOURCE, output_dir=OUTPUT, repair=True),
    ],
)
def test_a_possible_conversion_has_no_faults(config):
    assert list(config.faults()) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"output": OUTPUT}, "no dataset. Set --dataset.root"),
        ({"dataset": SOURCE}, "Set --output=FOLDER"),
        ({"merge": ["a"], "output": OUTPUT}, "--merge=['a'] must list at least two datasets"),
        ({"merge": ["a", "b"], "dataset": SOURCE, "output": OUTPUT}, "Remove --dataset.root"),
        ({"merge": ["a", "b"], "episodes": [1], "output": OUTPUT}, "--episodes selects from one"),
        ({"merge": ["a", "b"], "exclude_episodes": [], "output": OUTPUT}, "--exclude_episodes"),
        ({"dataset": SOURCE, "output": OUTPUT, "allow_mixed_robots": True}, "without --merge"),
        (
            {"dataset": CopiedDatasetConfig(root=OUTPUT, revision="x"), "output": OUTPUT},
            "--dataset.revision is for the Hub",
        ),
        ({"checkpoint": Path("run"), "output": Path("/")}, "--output=/ already exists"),
        ({"checkpoint": Path("run"), "episodes": [1]}, "--episodes is for datasets"),
        ({"dataset": SOURCE, "output": OUTPUT, "fps": 3}, "--fps has no effect without --from"),
        ({"from_": OUTPUT}, "Set --output=FOLDER"),
        ({"from_": OUTPUT, "output": OUTPUT, "fps": 0}, "--fps=0 must be at least 1"),
        ({"from_": OUTPUT, "output": OUTPUT, "format": "bag"}, "not one of robomimic, aloha"),
        ({"from_": OUTPUT, "output": OUTPUT, "image_storage": "gif"}, "not one of video, image"),
        ({"from_": OUTPUT, "output": OUTPUT, "color_order": "x"}, "not one of rgb, bgr"),
        ({"from_": OUTPUT, "output": OUTPUT, "task": "a", "task_column": "b"}, "Remove one"),
        ({"from_": OUTPUT, "output": OUTPUT, "dataset": SOURCE}, "--dataset and --from exclude"),
        ({"from_": OUTPUT, "output": OUTPUT, "repair": True}, "--repair and --from exclude"),
        ({"merge": ["a", "b"], "output": OUTPUT, "repair": True}, "--repair takes one dataset"),
        ({"dataset": SOURCE, "output": OUTPUT, "repair": True, "episodes": [1]}, "with --repair"),
        ({"dataset": SOURCE, "output": OUTPUT, "output_dir": OUTPUT}, "are the same. Remove one"),
    ],
)
def test_what_cannot_work_is_told(values, message):
    (fault,) = ConvertConfig(**values).faults()
    assert message in fault


def test_several_faults_come_together():
    assert len(list(ConvertConfig().faults())) == 2
