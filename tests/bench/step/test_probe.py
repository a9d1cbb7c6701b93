"""Short measurements for plans."""

from manyhands.cli.plan import read_plan_flags
from manyhands_bench.step.probe import probe_steps

SHAPES = ("--cameras=0", "--state_dim=3", "--action_dim=2")


def test_every_batch_size_is_timed_in_one_process(tiny_act):
    flags = [*SHAPES, *tiny_act, "--global_batch_size=16", "--launch.num_processes=4"]
    seen: list[tuple[int, int]] = []
    found = probe_steps(*read_plan_flags(flags), [2, 4], lambda *done: seen.append(done))
    assert [*found.seconds] == [2, 4] and min(found.seconds.values()) > 0
    assert found.source.startswith("cpu, step mode eager")
    assert seen[-1] == (2, 2)
