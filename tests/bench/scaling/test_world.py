"""Processes that are really started."""

import pytest

from manyhands.config.resolve import read_train_config
from manyhands_bench.scaling.rank import RankRequest
from manyhands_bench.scaling.world import WorldFailed, measure_world, placed

REQUEST = RankRequest(num_steps=4, warm_up=1, threads=1, exchanges=True)
BASE = ["--policy=act", "--dataset.root=x"]


@pytest.mark.process
def test_processes_that_fail_say_why(tmp_path, tiny_act, capfd):
    config = read_train_config([f"--dataset.root={tmp_path}", *tiny_act])
    with pytest.raises(WorldFailed) as raised:
        measure_world(config, 1, REQUEST)
    assert raised.value.exit_code == 2
    assert "is not a LeRobot dataset" in capfd.readouterr().err


def test_one_process_has_whole_weights_and_the_first_gpu():
    flags = ["--parallelism.dp_shard=2", "--parallelism.dp_replicate=2", "--launch.gpu_ids=[3,1]"]
    config = read_train_config([*BASE, *flags])
    assert placed(config, 4) == config
    alone = placed(config, 1)
    assert (alone.parallelism.dp_replicate, alone.parallelism.dp_shard) == (None, -1)
    assert alone.policy.device == "cuda:3"
    assert placed(read_train_config(BASE), 1) == read_train_config(BASE)
