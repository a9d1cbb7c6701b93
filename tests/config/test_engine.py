"""Flags of an engine."""

import pytest

from manyhands.config.engine import read_engine_config
from manyhands.errors import ConfigError, HelpShown


def test_flags_of_training_have_the_same_names_and_meaning():
    flags = ["--parallelism.dp_shard=-1", "--accelerator.mixed_precision=bf16", "--seed=3"]
    config = read_engine_config([*flags, "--output_dir=runs/a", "--save_freq=5", "--keep_last=2"])
    run = config.run
    assert (run.parallelism.dp_shard, run.accelerator.mixed_precision, run.seed) == (-1, "bf16", 3)
    assert (run.output_dir, run.save_freq, run.keep_last) == (config.output_dir, 5, 2)
    assert run.policy is None


@pytest.mark.parametrize(
    ("flag", "fault"),
    [
        ("--device=gpu", "--device=gpu is not cpu, cuda, cuda:N or mps"),
        ("--sed=1", "unknown flag --sed; did you mean --seed?"),
        ("--batch_size=8", "unknown flag --batch_size"),
        ("--save_freq=3", "needs a folder. Set --output_dir"),
        ("--launch.max_restarts=2", "is a flag of manyhands train"),
        ("--parallelism.dp_shard=0", "--parallelism.dp_shard=0 must be at least 1"),
        ("--accelerator.mixed_precision=fp8", "is not one of no, bf16, fp16"),
        ("--timeout_s=0", "--timeout_s=0.0 must be above 0"),
        ("--keep_last=0", "--keep_last=0 must be at least 1"),
    ],
)
def test_what_cannot_work_is_rejected_by_name(flag, fault):
    with pytest.raises(ConfigError) as error:
        read_engine_config([flag])
    assert fault in str(error.value)


def test_help_lists_every_flag(capsys):
    with pytest.raises(HelpShown):
        read_engine_config(["--help"])
    printed = capsys.readouterr().out
    assert "--launch.num_processes" in printed and "--checkpoint_format" in printed
