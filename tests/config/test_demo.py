"""The demo's flags."""

from manyhands.config.demo import DemoConfig
from manyhands.config.schema import flags_of


def test_the_flags_are_these():
    names = {flag.name for flag in flags_of(DemoConfig)}
    assert names == {"output_dir", "seed", "fast", "json", "launch.num_processes"}
