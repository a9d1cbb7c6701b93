"""Impossible numbers of nodes and processes, and impossible texts, are named by their flag."""

import pytest

from manyhands.config.launch.jobs import JobConfig, text_faults


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"nodes": 0}, "--nodes=0"),
        ({"gpus_per_node": -1}, "--gpus_per_node=-1"),
        ({"gpus_per_node": 0}, "Set --processes_per_node=N"),
        ({"gpus_per_node": 2, "processes_per_node": 3}, "exceeds --gpus_per_node=2"),
    ],
)
def test_impossible_numbers_are_named(values, told):
    assert told in " ".join(JobConfig(**values).count_faults())


def test_a_process_per_gpu_is_the_default():
    assert JobConfig(gpus_per_node=4).num_processes == 4
    assert JobConfig(gpus_per_node=0, processes_per_node=2).num_processes == 2
    assert not [*JobConfig(gpus_per_node=0, processes_per_node=2).count_faults()]


def test_names_that_no_variable_can_have_are_named():
    assert [*JobConfig(env={"A-B": "1", "C": "2"}).variable_faults()] == [
        "--env: A-B is not a variable name"
    ]


@pytest.mark.parametrize(("text", "count"), [("a b\n$", 0), ("\0", 1), ("\udcff", 1)])
def test_texts_that_cannot_be_handed_on_are_named(text, count):
    assert len([*text_faults("--x", text)]) == count
