"""Which row of a plan to run."""

from dataclasses import replace

import pytest

from manyhands.plan.plan import Row
from manyhands.plan.recommendation import recommend
from manyhands.plan.run_time import RunTime


def row(gpus, strategy, samples_per_s=None, fits=True):
    time = None if samples_per_s is None else RunTime(1.0, 10.0, samples_per_s, 0.0, None)
    return Row(gpus=gpus, strategy=strategy, fits=fits, time=time, batch_size=8)


def test_the_most_gpus_that_are_used_well():
    rows = [row(1, "single", 100), row(2, "DDP", 195), row(4, "DDP", 350), row(8, "DDP", 400)]
    best = recommend(rows)
    assert best.row is rows[2]
    assert "3.50x" in best.reason and "88% efficiency" in best.reason
    assert "8 GPUs would be at 50%" in best.reason


def test_whole_weights_before_shards_where_both_fit():
    rows = [row(1, "single"), row(2, "FSDP2"), row(2, "DDP")]
    best = recommend(rows)
    assert best.row is rows[2] and "sharding them would only cost time" in best.reason


def test_shards_where_nothing_else_fits():
    rows = [row(1, "single", fits=False), row(2, "DDP", fits=False), row(2, "FSDP2")]
    best = recommend(rows)
    assert best.row is rows[2] and "do not fit on every GPU" in best.reason


def test_weights_fit_only_where_memory_is_known():
    rows = [row(2, "DDP", fits=None), row(2, "FSDP2", fits=None)]
    best = recommend(rows)
    assert best.row is rows[0]
    assert best.reason == "set --gpu_memory, such as --gpu_memory=80GiB, to see what fits"


@pytest.mark.parametrize("strategy", ["FSDP2", "HSDP"])
def test_weights_are_too_large_only_where_replicas_were_tried(strategy):
    smaller = [row(1, "single", fits=False), row(2, "DDP", fits=False)]
    impossible = Row(gpus=4, strategy="", fault="fewer samples than GPUs")
    assert recommend([*smaller, row(4, strategy), impossible]).reason == ""


def test_nothing_is_recommended_where_nothing_fits():
    impossible = replace(row(2, "DDP"), fault="fewer samples than GPUs")
    assert recommend([row(1, "single", fits=False), impossible]) is None
