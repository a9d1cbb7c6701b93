"""Data that nobody has recorded."""

import pytest

from manyhands.config.commands.synthetic_data import SyntheticDataConfig


def test_sound_shapes_have_no_fault():
    assert SyntheticDataConfig().faults() == [] and SyntheticDataConfig().named_shapes == []
    shapes = SyntheticDataConfig(cameras=0, image_size=(8, 8))
    assert shapes.faults() == [] and shapes.named_shapes == ["cameras", "image_size"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("cameras", -1), ("image_size", (0, 640)), ("state_dim", 0), ("action_dim", 0)],
)
def test_faults_name_their_flag(name, value):
    (fault,) = SyntheticDataConfig(**{name: value}).faults()
    assert fault.startswith(f"--{name}=")
