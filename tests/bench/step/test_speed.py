"""A whole measurement."""

import shutil

import pytest

from manyhands.config.launch.launcher import Launcher
from manyhands.errors import ConfigError, EnvironmentFault
from manyhands_bench.step.command import read_step_flags
from manyhands_bench.step.speed import bench_step, refuse_other_starts

SHAPES = ("--cameras=0", "--state_dim=3", "--action_dim=2", "--batch_size=4")


def test_a_measurement_on_the_cpu_is_complete(tiny_act):
    bench, config = read_step_flags([*SHAPES, *tiny_act, "--num_steps=3", "--warm_up=1"])
    told = []
    result = bench_step(bench, config, Launcher(), lambda *now: told.append(now))
    assert told[0] == (0, 3) and told[-1] == (3, 3)
    (row,) = result.rows
    assert (row.mode, result.device, result.precision) == ("eager", "cpu", "no")
    rate = result.flops_per_update / row.median_ms / 1e9
    assert row.tflops == pytest.approx(rate)
    assert row.mfu == pytest.approx(rate / result.peak_tflops)
    assert result.reference_median_ms is None and result.with_loader is None
    limits = result.roofline
    assert max(limits.compute_ms, limits.memory_ms) <= limits.floor_ms


def test_a_policy_that_reads_is_measured_without_a_tokenizer(tiny_vlm, tmp_path):
    shutil.copy(tiny_vlm / "config.json", tmp_path)
    flags = (
        *("--cameras=2", "--image_size=[24,40]", "--state_dim=3", "--action_dim=2"),
        *("--policy.type=smolvla", "--policy.random_vlm=true", "--policy.num_vlm_layers=2"),
        *(f"--policy.vlm_model_name={tmp_path}", "--policy.resize_imgs_with_padding=[32,32]"),
        *("--policy.device=cpu", "--batch_size=2", "--num_steps=2", "--warm_up=1"),
    )
    result = bench_step(*read_step_flags([*flags]), Launcher(), lambda *_: None)
    assert result.rows[0].median_ms > 0 and result.flops_per_update > 0


def test_programs_find_the_main_row_at_the_top(step_result):
    told = step_result.as_json()
    assert (told["mode"], told["median_ms"], told["setup_s"]) == ("graph", 2.0, 5.0)
    assert told["reference_median_ms"] == 8.0 and told["roofline"]["floor_ms"] == 1.6
    assert told["with_loader"] == {"samples_per_s": 90.0, "share": 0.9, "num_workers": 4}
    assert [row["mode"] for row in told["rows"]] == ["graph", "eager", "LeRobot"]


@pytest.mark.parametrize(
    "flag",
    ["--launch.num_processes=2", "--parallelism.gpus_per_process=2", "--resume=auto"],
)
def test_one_process_on_one_device_is_measured(flag, tiny_act, tmp_path):
    _, config = read_step_flags([*SHAPES, *tiny_act, flag, f"--output_dir={tmp_path}"])
    with pytest.raises(ConfigError, match=flag):
        refuse_other_starts(config, Launcher())


def test_launchers_are_refused(tiny_act):
    _, config = read_step_flags([*SHAPES, *tiny_act])
    with pytest.raises(EnvironmentFault, match="without torchrun"):
        refuse_other_starts(config, Launcher(started_ranks=True))
