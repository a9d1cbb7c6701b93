"""A launcher's variables are used or refused by name."""

import pytest

from manyhands.config.launch.launcher import Launcher, read_launcher, take_over
from manyhands.config.sections.execution import FsdpConfig, ParallelismConfig
from manyhands.errors import EnvironmentFault


def test_no_launcher_means_one_process():
    assert read_launcher({}) == Launcher()


def test_torchrun_gives_a_place():
    environ = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    launcher = read_launcher(environ)
    assert launcher == Launcher(3, 4, 1, 2, started_ranks=True)
    assert not launcher.is_main


def test_where_ranks_meet_is_known():
    environ = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
    launcher = read_launcher(environ)
    assert (launcher.main_address, launcher.main_port) == ("node1", 29500)
    assert (launcher.listening, launcher.is_ours) == (None, False)
    assert launcher.attempt == 0
    assert read_launcher(environ | {"TORCHELASTIC_RESTART_COUNT": "2"}).attempt == 2
    ours = read_launcher(environ | {"MANYHANDS_LISTENING": "7"})
    assert (ours.listening, ours.is_ours) == (7, True)
    assert read_launcher(environ | {"MANYHANDS_LISTENING": "0"}).listening is None


def test_accelerate_gives_sharding():
    environ = {"ACCELERATE_USE_FSDP": "true", "FSDP_SHARDING_STRATEGY": "HYBRID_SHARD"}
    launcher = read_launcher({"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", **environ})
    assert launcher.parallelism == ParallelismConfig(dp_shard=2)
    assert launcher.fsdp == FsdpConfig()
    assert read_launcher({}).parallelism is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ACCELERATE_DYNAMO_MODE", "default"),
        ("ACCELERATE_DYNAMO_USE_FULLGRAPH", "False"),
        ("ACCELERATE_LOG_LEVEL", "INFO"),
        ("FSDP_OFFLOAD_PARAMS", "false"),
    ],
)
def test_what_asks_for_nothing_passes(name, value):
    assert read_launcher({name: value}) == Launcher()


def test_accelerate_gives_precision_accumulation_and_the_cpu():
    launcher = read_launcher(
        {
            "ACCELERATE_MIXED_PRECISION": "bf16",
            "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "4",
            "ACCELERATE_USE_CPU": "True",
            "ACCELERATE_CPU_AFFINITY": "1",
            "ACCELERATE_DYNAMO_BACKEND": "NO",
        }
    )
    assert (launcher.mixed_precision, launcher.accumulation) == ("bf16", 4)
    assert launcher.use_cpu and launcher.binds_cores


def test_variables_that_are_taken_over_still_count_and_keep_their_names_in_errors():
    environ = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "RANK": "0"}
    environ |= {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "4"}
    before = read_launcher(environ)
    take_over(environ)
    assert not any(name.startswith("ACCELERATE_") for name in environ)
    assert read_launcher(environ) == before
    take_over(environ)
    assert read_launcher(environ) == before
    environ = {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "many"}
    take_over(environ)
    with pytest.raises(EnvironmentFault, match=" ACCELERATE_GRADIENT_ACCUMULATION_STEPS=many"):
        read_launcher(environ)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ACCELERATE_USE_DEEPSPEED", "true"),
        ("ACCELERATE_USE_MEGATRON_LM", "1"),
        ("ACCELERATE_USE_PARALLELISM_CONFIG", "true"),
        ("ACCELERATE_DEBUG_MODE", "true"),
        ("ACCELERATE_DYNAMO_MODE", "max-autotune"),
        ("ACCELERATE_TORCH_DEVICE", "cuda:3"),
        ("ACCELERATE_SOMETHING_NEW", "3"),
        ("FSDP_TRANSFORMER_CLS_TO_WRAP", "Block"),
        ("PARALLELISM_CONFIG_DP_SHARD_SIZE", "2"),
        ("ACCELERATE_DYNAMO_BACKEND", "INDUCTOR"),
        ("ACCELERATE_MIXED_PRECISION", "fp8"),
        ("RANK", "first"),
    ],
)
def test_what_cannot_be_given_is_refused_by_name(name, value):
    with pytest.raises(EnvironmentFault, match=name):
        read_launcher({name: value})
