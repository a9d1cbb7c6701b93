"""Accelerate's variables about sharding are used or refused by name."""

import pytest

from manyhands.config.launch.launcher_fsdp import read_sharding, sharding_faults
from manyhands.config.sections.execution import FsdpConfig, ParallelismConfig
from manyhands.errors import EnvironmentFault

UNASKED = {
    "FSDP_ACTIVATION_CHECKPOINTING": "false",
    "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD": "false",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "true",
    "FSDP_FORWARD_PREFETCH": "false",
    "FSDP_MIN_NUM_PARAMS": "100000000",
    "FSDP_OFFLOAD_PARAMS": "false",
    "FSDP_RESHARD_AFTER_FORWARD": "true",
    "FSDP_SHARDING_STRATEGY": "FULL_SHARD",
    "FSDP_SYNC_MODULE_STATES": "true",
    "FSDP_USE_ORIG_PARAMS": "true",
    "FSDP_VERSION": "1",
}
"""What `accelerate launch --use_fsdp` sets by itself."""


def test_what_accelerate_sets_by_itself_shares_one_copy_among_all():
    sharding = read_sharding(UNASKED, num_local_ranks=4)
    assert sharding.parallelism == ParallelismConfig(dp_shard=-1)
    assert sharding.fsdp == FsdpConfig()


def test_a_files_details_are_kept():
    asked = {
        "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
        "FSDP_TRANSFORMER_CLS_TO_WRAP": "EncoderLayer, DecoderLayer",
        "FSDP_OFFLOAD_PARAMS": "true",
        "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT",
        "FSDP_BACKWARD_PREFETCH": "BACKWARD_PRE",
        "FSDP_VERSION": "2",
    }
    fsdp = read_sharding(UNASKED | asked, num_local_ranks=4).fsdp
    assert fsdp == FsdpConfig(wrap_modules=["EncoderLayer", "DecoderLayer"], cpu_offload=True)
    whole = read_sharding(UNASKED | {"FSDP_AUTO_WRAP_POLICY": "NO_WRAP"}, num_local_ranks=4)
    assert whole.fsdp.wrap_modules == []


@pytest.mark.parametrize(
    ("strategy", "dp_shard", "reshards"),
    [
        ("FULL_SHARD", -1, True),
        ("1", -1, True),
        ("SHARD_GRAD_OP", -1, False),
        ("NO_SHARD", 1, True),
        ("HYBRID_SHARD", 4, True),
        ("5", 4, False),
    ],
)
def test_every_strategy_has_its_degrees(strategy, dp_shard, reshards):
    sharding = read_sharding(UNASKED | {"FSDP_SHARDING_STRATEGY": strategy}, num_local_ranks=4)
    assert sharding.parallelism == ParallelismConfig(dp_shard=dp_shard)
    assert sharding.fsdp.reshard_after_forward is reshards


def test_degrees_of_a_parallelism_config_are_taken():
    asked = {
        "ACCELERATE_USE_PARALLELISM_CONFIG": "true",
        "PARALLELISM_CONFIG_DP_REPLICATE_SIZE": "2",
        "PARALLELISM_CONFIG_DP_SHARD_SIZE": "4",
        "PARALLELISM_CONFIG_TP_SIZE": "1",
        "PARALLELISM_CONFIG_CP_SIZE": "1",
        "PARALLELISM_CONFIG_CP_BACKEND": "torch",
        "PARALLELISM_CONFIG_SP_SIZE": "1",
        "PARALLELISM_CONFIG_SP_BACKEND": "deepspeed",
    }
    sharding = read_sharding(UNASKED | asked, num_local_ranks=8)
    assert sharding.parallelism == ParallelismConfig(dp_replicate=2, dp_shard=4)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FSDP_SHARDING_STRATEGY", "12"),
        ("FSDP_SHARDING_STRATEGY", "ZERO"),
        ("FSDP_RESHARD_AFTER_FORWARD", "maybe"),
        ("FSDP_AUTO_WRAP_POLICY", "SIZE_BASED_WRAP"),
        ("FSDP_STATE_DICT_TYPE", "LOCAL_STATE_DICT"),
        ("FSDP_BACKWARD_PREFETCH", "NO_PREFETCH"),
        ("FSDP_FORWARD_PREFETCH", "true"),
        ("FSDP_USE_ORIG_PARAMS", "false"),
        ("FSDP_ACTIVATION_CHECKPOINTING", "true"),
        ("FSDP_IGNORED_MODULES", "head"),
        ("FSDP_SOMETHING_NEW", "3"),
        ("FSDP_VERSION", "3"),
        ("PARALLELISM_CONFIG_TP_SIZE", "2"),
        ("PARALLELISM_CONFIG_CP_COMM_STRATEGY", "allgather"),
    ],
)
def test_what_cannot_be_given_is_refused_by_name(name, value):
    assert sharding_faults(UNASKED | {name: value}) == [f"{name}={value}"]
    with pytest.raises(EnvironmentFault, match=f"{name}={value}"):
        read_sharding(UNASKED | {name: value}, num_local_ranks=2)


@pytest.mark.parametrize(
    ("state", "saved"),
    [("FULL_STATE_DICT", "safetensors"), ("SHARDED_STATE_DICT", "safetensors_dcp")],
)
def test_the_kind_of_state_is_taken(state, saved):
    sharding = read_sharding(UNASKED | {"FSDP_STATE_DICT_TYPE": state}, num_local_ranks=2)
    assert sharding.checkpoint_format == saved


def test_copies_of_which_each_is_shared_among_all_that_are_left():
    asked = {
        "ACCELERATE_USE_PARALLELISM_CONFIG": "true",
        "PARALLELISM_CONFIG_DP_REPLICATE_SIZE": "2",
        "PARALLELISM_CONFIG_DP_SHARD_SIZE": "-1",
    }
    sharding = read_sharding(UNASKED | asked, num_local_ranks=8)
    assert sharding.parallelism == ParallelismConfig(dp_replicate=2, dp_shard=-1)
