"""The demo's flags."""

from manyhands.config.commands.demo import DemoConfig
from manyhands.config.schema.decoding import flags_of
from manyhands.config.train import ProcessesConfig


def test_the_flags_are_these():
    names = {flag.name for flag in flags_of(DemoConfig)}
    assert names == {"output_dir", "seed", "fast", "json", "launch.num_processes"}


def test_faults_name_their_flag():
    assert DemoConfig().faults() == []
    config = DemoConfig(seed=-1, launch=ProcessesConfig(num_processes=0))
    assert [fault.partition("=")[0] for fault in config.faults()] == [
        "--seed",
        "--launch.num_processes",
    ]
