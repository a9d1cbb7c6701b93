"""Columns that follow from the metadata."""

from dataclasses import replace

import numpy as np
import pytest

from manyhands.data.dataset import open_dataset
from manyhands.data.derived_columns import DERIVABLE, derived_column


@pytest.mark.parametrize("key", DERIVABLE)
def test_a_derived_column_equals_the_recorded_one(tiny_dataset, key):
    dataset = open_dataset(tiny_dataset)
    frames = np.arange(5, 30)
    derived = derived_column(dataset.source, key, frames)
    assert np.array_equal(derived, dataset.column_values(key, frames))


def test_tasks_of_episodes_with_several_cannot_be_derived(tiny_dataset):
    source = open_dataset(tiny_dataset).source
    several = [["reach", "grasp"], *source.meta.episodes.tasks[1:]]
    episodes = replace(source.meta.episodes, tasks=several)
    changed = replace(
        source, meta=replace(source.meta, tasks=["reach", "grasp"], episodes=episodes)
    )
    assert derived_column(changed, "task_index", np.array([0])) is None
    assert derived_column(changed, "task_index", np.array([12])).tolist() == [0]
    assert derived_column(source, "action", np.array([0])) is None
