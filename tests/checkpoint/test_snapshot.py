"""What a checkpoint is made of."""

from manyhands.checkpoint.snapshot import Position


def test_a_position_counts_updates_and_samples():
    assert Position(3, 40).after(8) == Position(4, 48)
