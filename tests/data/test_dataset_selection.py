"""Datasets of a run and their episodes."""

import pytest

from manyhands.config.train import DatasetConfig
from manyhands.data.dataset_selection import find_datasets
from manyhands.errors import DatasetError


def test_all_episodes_are_learned_from_unless_told_otherwise(tiny_dataset):
    (part,) = find_datasets(DatasetConfig(root=tiny_dataset))
    assert part.training.tolist() == [0, 1, 2, 3] and part.uses_all_episodes


def test_excluded_episodes_and_those_held_out_are_not_learned_from(tiny_dataset):
    config = DatasetConfig(root=tiny_dataset, exclude_episodes=[1], eval_split=0.3)
    (part,) = find_datasets(config)
    assert (part.training.tolist(), part.held_out.tolist()) == ([0, 2], [3])
    assert not part.uses_all_episodes


@pytest.mark.parametrize(
    ("excluded", "told"), [([4], "names 4, but .* 0 to 3"), ([0, 1, 2, 3], "leaves no episode")]
)
def test_excluding_what_is_not_there_or_everything_is_refused(tiny_dataset, excluded, told):
    with pytest.raises(DatasetError, match=told):
        find_datasets(DatasetConfig(root=tiny_dataset, exclude_episodes=excluded))


def test_a_mixture_has_a_part_for_every_dataset_with_its_share(tiny_dataset, plain_root):
    config = DatasetConfig(mix={str(tiny_dataset): 3, str(plain_root): 1})
    tiny, plain = find_datasets(config)
    assert (tiny.root, plain.root) == (tiny_dataset, plain_root)
    assert (tiny.weight, plain.weight) == (0.75, 0.25)


def test_a_dataset_of_a_mixture_that_is_not_there_is_named(tiny_dataset):
    with pytest.raises(DatasetError, match="somebody/nothing"):
        find_datasets(DatasetConfig(mix={str(tiny_dataset): 1, "somebody/nothing": 1}))
