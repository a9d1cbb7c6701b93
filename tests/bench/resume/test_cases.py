"""Runs that are killed."""

from pathlib import Path

import pytest

from manyhands.config.resolve import read_train_config
from manyhands.lerobot_format.dataset.meta import read_dataset_meta
from manyhands_bench.config import CASES
from manyhands_bench.resume.cases import NUM_STEPS, SAVE_EVERY, case_of, record_dataset


@pytest.mark.parametrize("name", CASES)
def test_every_case_is_a_run_that_can_be_started_again_by_the_same_command(name, tmp_path):
    case = case_of(name)
    where = ["--dataset.root=x", f"--output_dir={tmp_path / 'run'}", "--resume=auto"]
    config = read_train_config([*case.flags, *where])
    assert f"{config.policy.type}-" == name.partition("-")[0] + "-"
    assert config.launch.num_processes == case.num_ranks == (1 if "single" in name else 2)
    assert (config.parallelism.dp_shard > 1) == name.endswith("fsdp")
    assert config.audit and (config.num_steps, config.save_freq) == (NUM_STEPS, SAVE_EVERY)


def test_together_they_save_everything_there_is_to_save():
    configs = [read_train_config([*case_of(name).flags, "--dataset.root=x"]) for name in CASES]
    assert {config.ema.enable for config in configs} == {True, False}
    assert {config.keep_last for config in configs} > {None, 1}
    assert {config.num_workers for config in configs} == {0, 1}
    assert {config.checkpoint_format for config in configs} == {None, "dcp"}


def test_the_dataset_has_no_camera_and_is_always_the_same(tmp_path: Path):
    files = []
    for root in (tmp_path / "one", tmp_path / "other"):
        record_dataset(root)
        assert len(read_dataset_meta(root).episodes) == 4 and not (root / "videos").exists()
        files.append((root / "meta" / "stats.json").read_text())
    assert files[0] == files[1]
