"""LeRobot's updates beside ours, measured in one run."""

import json

import pytest

from manyhands_bench.main import bench_command

SHAPES = ("--image_size=[64,64]", "--state_dim=3", "--action_dim=2")
SHORT = ("--num_steps=2", "--warm_up=1", "--batch_size=2", "--policy.device=cpu")
DIFFUSION = (
    "--policy.type=diffusion",
    "--policy.horizon=8",
    "--policy.n_action_steps=4",
    "--policy.down_dims=[16,32]",
    "--policy.crop_shape=null",
)


# Convolutions in bf16 take minutes on processors that have no such numbers.
@pytest.mark.parametrize(("kind", "precision"), [("act", "bf16"), ("diffusion", "no")])
def test_both_are_measured_in_the_same_run(kind, precision, lerobot, tiny_sizes, tmp_path):
    act = ("--policy.type=act", "--cameras=0", *tiny_sizes)
    policy = act if kind == "act" else DIFFUSION
    file = tmp_path / "step.json"
    own = (f"--against={lerobot.python}", f"--json={file}")
    flags = (*policy, *SHAPES, *SHORT, f"--accelerator.mixed_precision={precision}")
    assert bench_command(["step", *flags, *own]) == 0
    told = json.loads(file.read_text())
    assert told["reference_median_ms"] > 0
    assert [row["mode"] for row in told["rows"]] == ["eager", "LeRobot"]
    assert [row["precision"] for row in told["rows"]] == [precision] * 2
