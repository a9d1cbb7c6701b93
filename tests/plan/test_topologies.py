"""Ways to spread a run."""

from manyhands.cli.plan import read_plan_flags
from manyhands.plan.topologies import topologies

SHAPES = ("--cameras=0", "--policy.type=act")


def ways(*flags):
    plan, config = read_plan_flags([*SHAPES, *flags])
    return [(gpus, way.parallelism.dp_shard) for gpus, way in topologies(plan, config)]


def test_usual_numbers_with_whole_and_with_shared_weights():
    assert ways() == [(1, 1), (2, 1), (2, -1), (4, 1), (4, -1), (8, 1), (8, -1)]


def test_what_is_asked_for_is_all_there_is():
    assert ways("--gpus=[3]") == [(3, 1), (3, -1)]
    assert ways("--launch.num_processes=2") == [(2, 1), (2, -1)]
    assert ways("--gpus=[4]", "--parallelism.dp_shard=2") == [(4, 2)]


def test_gpus_of_a_process_are_planned_together():
    assert ways("--parallelism.gpus_per_process=3") == [(3, 1)]
    assert ways("--parallelism.gpus_per_process=4", "--launch.num_processes=1") == [(4, 1)]
