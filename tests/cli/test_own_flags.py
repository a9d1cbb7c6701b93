"""Flags of a measurement beside those of training."""

import pytest

from manyhands.cli.flags import read_command_flags
from manyhands.errors import ConfigError, HelpShown
from manyhands_bench.config import BenchLoaderConfig, BenchScalingConfig

BASE = ["--policy=act", "--dataset.root=x"]


def test_flags_go_to_whom_they_belong():
    arguments = [*BASE, "--processes=[1, 2]", "--steps=3", "--batch_size=4"]
    bench, config = read_command_flags(BenchScalingConfig, "", arguments)
    assert (bench.processes, bench.steps) == ([1, 2], 3)
    assert config.batch_size == 4 and config.steps == 100_000
    _, config = read_command_flags(BenchLoaderConfig, "", [*BASE, "--steps=3"])
    assert config.steps == 3


def help_of(capsys, flag):
    with pytest.raises(HelpShown):
        read_command_flags(BenchScalingConfig, "how to use it", [flag])
    return capsys.readouterr().out


def test_help_lists_own_flags_and_where_the_others_are(capsys):
    printed = help_of(capsys, "--help")
    assert all(
        word in printed for word in ("how to use it", "--link_gbps", "manyhands train --help")
    )
    assert "--optimizer.lr" not in printed
    assert "--optimizer.lr" in help_of(capsys, "--help=optimizer")
    assert "--link_gbps" in help_of(capsys, "--help=link_gbps")


@pytest.mark.parametrize("flag", ["--print_config", "--steps=0", "--proceses=[1]", "--steps=a"])
def test_faults_name_their_flag(flag):
    with pytest.raises(ConfigError, match=flag.split("=")[0]):
        read_command_flags(BenchScalingConfig, "", [*BASE, flag])
