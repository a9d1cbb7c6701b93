"""Flags that do not do what they promise on this machine and this data."""

import pytest

from manyhands.config.resolve import read_train_config
from manyhands.training.start import run_training


@pytest.fixture
def notes(command, tmp_path, capsys):
    """The notes in the banner of a run of two steps."""

    def run(*flags: str) -> list[str]:
        flags = ("--steps=2", "--batch_size=2", "--save_checkpoint=false", *flags)
        run_training(read_train_config(command.argv(tmp_path / "run", *flags)))
        printed = capsys.readouterr().out.splitlines()
        return [line for line in printed if line.startswith("NOTE: ")]

    return run


def test_a_run_that_is_what_it_says_has_no_notes(notes):
    assert notes() == []


@pytest.mark.parametrize(("is_fast", "num_told"), [(False, 1), (True, 0)])
def test_bf16_that_a_cpu_emulates_is_a_warning(
    command, tmp_path, capsys, monkeypatch, is_fast, num_told
):
    monkeypatch.setattr("manyhands.training.setup.unused_flags.has_fast_bf16", lambda: is_fast)
    flags = ("--steps=1", "--batch_size=2", "--accelerator.mixed_precision=bf16")
    run_training(read_train_config(command.argv(tmp_path / "run", *flags)))
    told = "WARNING: this CPU emulates bf16"
    assert capsys.readouterr().out.count(told) == num_told


def test_flags_that_need_a_gpu_several_processes_or_cameras_are_noted(notes):
    found = "\n".join(
        notes(
            *("--step.mode=graph", "--parallelism.dp_shard=-1", "--launch.main_port=29511"),
            "--dataset.image_size=[4,4]",
        )
    )
    for told in (
        "--step.mode=graph has no effect on a CPU: steps run eagerly",
        "--parallelism.dp_shard=-1 has no effect with one process",
        "--launch.main_port=29511 has no effect with one process",
        "--dataset.image_size=[4, 4] has no effect without cameras",
    ):
        assert told in found


def test_copies_on_one_cpu_are_noted(notes):
    found = "\n".join(
        notes("--parallelism.gpus_per_process=2", "--accelerator.ddp.static_graph=true")
    )
    assert "one device computes all copies in turn" in found
    assert "--accelerator.ddp.static_graph=true has no effect with the strategy DP" in found


def test_what_the_data_or_the_length_of_the_run_does_not_allow_is_noted(notes):
    found = notes(
        *("--policy.chunk_size=50", "--batch_size=50", "--profile=100:105"),
        *("--ema.enable=true", "--ema.update_after_step=9"),
        *("--scheduler.type=constant_with_warmup", "--scheduler.num_warmup_steps=9"),
    )
    for told in (
        "--policy.chunk_size=50 exceeds 4 of 4 episodes, whose median has 10 frames",
        "a step has 50 samples, the dataset only 39",
        "--profile=100:105 has no effect: the run has 2 steps",
        "--ema.update_after_step=9 is not below the 2 steps of the run",
        "--scheduler.num_warmup_steps=9 is not below the 2 steps of the run",
    ):
        assert any(told in line for line in found), told
    assert len(found) == 5


def test_a_resumed_run_notes_a_profile_of_steps_it_does_not_run(command, tmp_path, capsys):
    run_dir = tmp_path / "run"
    run_training(read_train_config(command.argv(run_dir, "--steps=2", "--batch_size=2")))
    capsys.readouterr()
    resumed = [f"--resume={run_dir}", "--steps=12", "--save_checkpoint=false"]
    for profile, reason in (
        ("1:2", "has no effect: the run resumes from step 2"),
        ("steps", "has no effect: the run has 12 steps"),
        ("2:3", None),
    ):
        run_training(read_train_config([*resumed, f"--profile={profile}"]))
        printed = capsys.readouterr().out.splitlines()
        notes = [line for line in printed if line.startswith("NOTE: --profile")]
        assert notes == ([f"NOTE: --profile={profile} {reason}"] if reason else [])
