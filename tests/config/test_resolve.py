"""Precedence: defaults < policy preset < file < flags."""

import json
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from manyhands.config.files.config_files import to_json, to_yaml
from manyhands.config.policies.act import ActConfig
from manyhands.config.resolve import (
    choose_job_name,
    choose_output_dir,
    read_resolved,
    read_train_config,
    resolve_config,
    write_resolved,
)
from manyhands.config.sections.optim import AdamWConfig, SgdConfig
from manyhands.config.train import DatasetConfig, TrainConfig
from manyhands.errors import CheckpointError, ConfigError

BASE = ["--dataset.root=data", "--policy.type=act"]


def faults_of(*argv: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read_train_config(argv)
    return caught.value.faults


def test_the_preset_stands_over_the_optimizer_defaults():
    assert read_train_config(BASE).optimizer == AdamWConfig(lr=1e-5, weight_decay=1e-4)


def test_policy_fields_feed_the_preset():
    assert read_train_config([*BASE, "--policy.optimizer_lr=3e-4"]).optimizer.lr == 3e-4


def test_a_single_optimizer_flag_changes_that_value_only():
    optimizer = read_train_config([*BASE, "--optimizer.lr=2e-4"]).optimizer
    assert optimizer == AdamWConfig(lr=2e-4, weight_decay=1e-4)


def test_another_optimizer_type_starts_from_its_own_defaults():
    optimizer = read_train_config(
        [*BASE, "--optimizer.type=sgd", "--optimizer.momentum=0.9"]
    ).optimizer
    assert optimizer == SgdConfig(momentum=0.9)


def test_without_the_preset_an_optimizer_must_be_named():
    faults = faults_of(*BASE, "--use_policy_training_preset=false")
    assert faults == [
        "--use_policy_training_preset=false needs an optimizer. "
        "Set --optimizer.type=adam, adamw or sgd"
    ]


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_a_file_stands_over_the_preset_and_under_the_flags(tmp_path: Path, suffix: str):
    file = tmp_path / f"run{suffix}"
    tree = {
        "dataset": {"root": "data"},
        "policy": {"type": "act", "chunk_size": 10, "n_action_steps": 5},
        "optimizer": {"lr": 3e-3},
        "steps": 7,
    }
    file.write_text(json.dumps(tree) if suffix == ".json" else yaml.safe_dump(tree))
    config = read_train_config([f"--config={file}", "--steps=9", "--policy.chunk_size=20"])
    assert (config.steps, config.policy.chunk_size, config.policy.n_action_steps) == (9, 20, 5)
    assert config.optimizer == AdamWConfig(lr=3e-3, weight_decay=1e-4)


def test_print_config_can_be_read_back(tmp_path: Path):
    config = read_train_config([*BASE, "--seed=3", "--dataset.episodes=[1,2]"])
    file = tmp_path / "run.yaml"
    file.write_text(to_yaml(config))
    assert read_train_config([f"--config_path={file}"]) == config


def checkpoint_of(run: Path, *argv: str) -> Path:
    return stored(run, read_train_config(argv))


def stored(run: Path, config: TrainConfig) -> Path:
    folder = run / "checkpoints" / "000010" / "pretrained_model"
    folder.mkdir(parents=True)
    (folder.parent / "training_state").mkdir()
    (folder / "train_config.json").write_text(to_json(config))
    (run / "checkpoints" / "last").symlink_to("000010")
    return folder


def test_a_run_directory_is_a_config_file(tmp_path: Path):
    checkpoint_of(tmp_path, *BASE, "--steps=11")
    assert read_train_config([f"--config_path={tmp_path}"]).steps == 11


@pytest.mark.parametrize("form", ["true", "run", "config_path"])
def test_resume_takes_the_saved_config_and_flags_over_it(tmp_path: Path, form: str):
    folder = checkpoint_of(tmp_path, *BASE, "--steps=11", "--seed=4", f"--output_dir={tmp_path}")
    argv = {
        "true": ["--resume=true", f"--output_dir={tmp_path}"],
        "run": [f"--resume={tmp_path}"],
        "config_path": ["--resume=true", f"--config_path={folder / 'train_config.json'}"],
    }[form]
    config = read_train_config([*argv, "--steps=20"])
    assert (config.steps, config.seed, config.output_dir) == (20, 4, tmp_path)
    assert Path(str(config.resume)).resolve() in (tmp_path, folder.parent.resolve())


def test_resume_needs_something_to_resume(tmp_path: Path):
    assert "--output_dir" in faults_of("--resume=true")[0]
    with pytest.raises(CheckpointError, match=str(tmp_path)):
        read_train_config([f"--resume={tmp_path}"])


def test_the_same_command_starts_a_run_and_continues_it(tmp_path: Path):
    command = [*BASE, f"--output_dir={tmp_path / 'run'}", "--resume=auto", "--steps=7"]
    fresh = read_train_config(command)
    assert (fresh.resume, fresh.resumes) == ("auto", False)
    checkpoint = stored(tmp_path / "run", fresh).parent
    again = read_train_config(command)
    assert again.resumes
    assert Path(str(again.resume)) == checkpoint
    assert again.steps == 7


def test_a_run_that_starts_or_continues_needs_a_place(tmp_path: Path):
    assert "--output_dir" in faults_of(*BASE, "--resume=auto")[0]


def test_a_pretrained_policy_brings_its_config_and_keeps_it_local(tmp_path: Path):
    stored = {"type": "act", "chunk_size": 12, "n_action_steps": 12, "push_to_hub": True}
    (tmp_path / "config.json").write_text(json.dumps(stored))
    config = read_train_config(
        ["--dataset.root=data", f"--policy.path={tmp_path}", "--policy.dropout=0.3"]
    )
    assert (config.policy.chunk_size, config.policy.dropout) == (12, 0.3)
    assert config.policy.pretrained_path == tmp_path
    assert config.policy.push_to_hub is False
    spelt = read_train_config(["dataset.root=data", f"policy.pretrained_path={tmp_path}"])
    assert spelt.policy.chunk_size == 12


def test_path_and_type_together_are_refused(tmp_path: Path):
    (tmp_path / "config.json").write_text('{"type": "act"}')
    assert "Remove --policy.type" in faults_of(*BASE, f"--policy.path={tmp_path}")[0]


def test_all_faults_are_told_together():
    faults = faults_of("--batchsize=8", "--polcy.type=act", "--steps=many", "--log_freq=0")
    assert faults == [
        "unknown flag --batchsize; did you mean --batch_size?",
        "unknown flag --polcy.type; did you mean --policy.type?",
        "--steps=many: expects an integer or null",
        "no dataset. Set --dataset.root=FOLDER or --dataset.repo_id=NAME",
        "--log_freq=0 must be at least 1",
    ]


def test_a_config_made_by_hand_gets_its_presets_and_its_faults():
    dataset = DatasetConfig(root=Path("data"))
    config = resolve_config(TrainConfig(dataset=dataset, policy=ActConfig(optimizer_lr=0.5)))
    assert config.optimizer == AdamWConfig(lr=0.5, weight_decay=1e-4)
    with pytest.raises(ConfigError, match="no dataset"):
        resolve_config(TrainConfig(policy=ActConfig()))


def test_a_run_that_was_moved_goes_on_where_it_lies(tmp_path: Path):
    checkpoint_of(tmp_path / "old", *BASE, f"--output_dir={tmp_path / 'old'}")
    (tmp_path / "old").rename(tmp_path / "new")
    assert read_train_config([f"--resume={tmp_path / 'new'}"]).output_dir == tmp_path / "new"
    other = read_train_config([f"--resume={tmp_path / 'new'}", "--output_dir=elsewhere"])
    assert other.output_dir == Path("elsewhere")


def test_the_run_directory_is_named_after_the_job():
    config = read_train_config(BASE)
    assert choose_job_name(config) == "act"
    assert choose_output_dir(config, datetime(2026, 1, 31, 17, 5, 9)) == Path(
        "outputs/train/2026-01-31/17-05-09_act"
    )
    named = read_train_config([*BASE, "--output_dir=x", "--job_name=j"])
    assert (choose_output_dir(named, datetime.now()), choose_job_name(named)) == (Path("x"), "j")


def test_a_yaml_file_can_resume_and_stands_over_the_stored_run(tmp_path: Path):
    checkpoint_of(tmp_path / "run", *BASE, "--steps=11", "--seed=4")
    file = tmp_path / "more.yaml"
    file.write_text(f"resume: {tmp_path / 'run'}\nsteps: 77\n")
    config = read_train_config([f"--config={file}"])
    assert (config.steps, config.seed) == (77, 4)
    assert config.output_dir == tmp_path / "run"
    again = read_train_config([f"--config={file}", "--steps=99", f"--resume={tmp_path / 'run'}"])
    assert again.steps == 99


def test_a_preset_value_that_a_file_shadows_is_refused_by_name(tmp_path: Path):
    checkpoint_of(tmp_path, *BASE)
    (fault,) = faults_of(f"--resume={tmp_path}", "--policy.optimizer_lr=0.5")
    assert "Use --optimizer.lr" in fault


def test_the_flags_a_run_began_with_may_be_said_again_to_continue_it(tmp_path: Path):
    flags = (*BASE, "--policy.optimizer_lr=5e-3", "--policy.optimizer_weight_decay=0")
    checkpoint_of(tmp_path, *flags)
    resumed = read_train_config([*flags, f"--resume={tmp_path}"])
    assert resumed.optimizer is not None and resumed.optimizer.lr == 5e-3


def test_a_run_that_began_from_a_policy_is_continued_by_the_same_flags(tmp_path: Path):
    start, run = tmp_path / "start", tmp_path / "run"
    start.mkdir()
    policy = read_train_config(BASE).policy
    (start / "config.json").write_text(to_json(policy))
    flags = ("--dataset.root=data", f"--policy.path={start}")
    checkpoint_of(run, *flags)
    resumed = read_train_config([*flags, f"--resume={run}"])
    assert resumed.policy is not None and str(resumed.policy.pretrained_path) == str(start)
    (fault,) = faults_of("--dataset.root=data", f"--policy.path={run}", f"--resume={run}")
    assert "--policy.path" in fault


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--dataset.episodes=[0,1", "--dataset.episodes=[0,1: expects a list"),
        ("--scheduler.num_warmup_steps=5", "needs --scheduler.type="),
        ("--optimizer.momentum=0.9", "--optimizer.momentum is not a flag of"),
        ("--steps", "--steps has no value: expects an integer"),
        ("--optimizer.lr=nan", "--optimizer.lr=nan is out of range"),
        ("--optimizer.betas=[1.5,0.9]", "--optimizer.betas"),
        ("--policy.latent_dim=-1", "--policy.latent_dim=-1 must be at least 1"),
        ("--policy.device=cuda:abc", "--policy.device=cuda:abc"),
        ("--dataset.revision=v1", "no effect with --dataset.root"),
    ],
)
def test_values_that_cannot_work_are_named(flag, words):
    assert any(words in fault for fault in faults_of(*BASE, flag))


def sizes(*argv: str) -> tuple:
    config = read_train_config(argv)
    return config.steps, config.epochs, config.samples, config.batch_size


def test_budget_and_batch_have_their_usual_size_unless_another_says_it():
    assert sizes(*BASE) == (100_000, None, None, 8)
    assert sizes(*BASE, "--epochs=2") == (None, 2.0, None, 8)
    assert sizes(*BASE, "--samples=50", "--steps=null") == (None, None, 50, 8)
    assert sizes(*BASE, "--global_batch_size=64") == (100_000, None, None, None)
    assert sizes(*BASE, "--global_batch_size=64", "--batch_size=4")[3] == 4
    by_hand = TrainConfig(dataset=DatasetConfig(root=Path("x")), policy=ActConfig(), epochs=3.0)
    assert resolve_config(resolve_config(by_hand)) == resolve_config(by_hand)
    assert resolve_config(by_hand).steps is None


def test_a_budget_takes_the_place_of_another_that_stands_below(tmp_path: Path):
    checkpoint_of(tmp_path / "run", *BASE, "--steps=11")
    file = tmp_path / "more.yaml"
    file.write_text(f"resume: {tmp_path / 'run'}\nepochs: 2.5\n")
    assert sizes(f"--resume={tmp_path / 'run'}")[:3] == (11, None, None)
    assert sizes(f"--resume={tmp_path / 'run'}", "--samples=9")[:3] == (None, None, 9)
    assert sizes(f"--config={file}")[:3] == (None, 2.5, None)
    assert sizes(f"--config={file}", "--steps=5")[:3] == (5, None, None)
    (fault,) = faults_of(*BASE, "--steps=5", "--epochs=2")
    assert fault == "--steps=5 and --epochs=2 contradict each other. Set only one of them"


def test_the_steps_that_a_stored_budget_came_to_are_its_past(tmp_path: Path):
    config = replace(read_train_config([*BASE, "--epochs=2"]), steps=50)
    stored(tmp_path / "run", config)
    assert sizes(f"--resume={tmp_path / 'run'}")[:3] == (None, 2.0, None)


@pytest.mark.parametrize(
    "flags",
    [
        [*BASE, "--epochs=2.5", "--resume=auto", "--output_dir=run", "--job_name=null"],
        [*BASE, "--global_batch_size=64", "--launch.gpu_ids=[0, 2]", "--rename_map={a: b}"],
        [*BASE, "--dataset.image_size=[48, 64]", "--dataset.image_transforms.enable=true"],
        ["--dataset.mix={me/a: 1, me/b: 0.5}", "--policy=smolvla", "--samples=9"],
        ["--dataset.repo_id=me/a", "--policy=diffusion", "--ema.enable=true", "--seed=7"],
        [
            *BASE,
            "--optimizer.type=sgd",
            "--optimizer.lr=0.1",
            "--accelerator.fsdp.wrap_modules=[A]",
        ],
    ],
)
def test_another_process_reads_the_resolved_config_as_it_is(tmp_path: Path, flags):
    config = read_train_config(flags)
    write_resolved(config, tmp_path / "config.json")
    assert read_resolved(tmp_path / "config.json") == config


def test_a_config_takes_flags_as_a_command_line_does(tmp_path: Path):
    argv = [*BASE, f"--output_dir={tmp_path}", "--epochs=3", "--policy.optimizer_lr=0.5"]
    checkpoint = checkpoint_of(tmp_path, *argv)
    more = ["--resume=auto", "--global_batch_size=6", "--batch_size=null"]
    config = resolve_config(read_train_config(argv), more)
    assert config == read_train_config([*argv, *more])
    assert config.resume == str(checkpoint.parent.resolve())


@pytest.mark.parametrize(
    ("flags", "fault"),
    [
        (["--eval_freq=5"], "--eval_freq=5 has no effect without --env.type"),
        (["--eval.n_episodes=5"], "--eval.n_episodes=5 has no effect without --env.type"),
        (["--env.type=tray", "--env.fps=0"], "--env.fps=0 must be at least 1"),
        (["--env.type=tray", "--env_eval_freq=-1"], "--env_eval_freq=-1 must be at least 0"),
        (["--env.type=tray", "--eval.n_episodes=0"], "--eval.n_episodes=0 must be at least 1"),
        (["--keep_best=success"], "--keep_best=success needs --env.type"),
        (["--early_stopping_patience=2"], "--early_stopping_patience needs a score"),
        (["--early_stopping_patience=-1"], "--early_stopping_patience=-1 must be at least 0"),
        (["--keep_best=success", "--env.type=tray", "--eval_freq=0"], "--env_eval_freq above 0"),
    ],
)
def test_an_evaluation_that_cannot_be_is_refused(flags, fault):
    with pytest.raises(ConfigError, match=re.escape(fault)):
        read_train_config(["--dataset.root=data", "--policy.type=act", *flags])


def test_no_environment_may_be_said_and_its_period_be_left_as_usual():
    base = ["--dataset.root=data", "--policy.type=act"]
    assert read_train_config([*base, "--env=null", "--eval_freq=20000"]) == read_train_config(base)


@pytest.mark.parametrize(
    ("kind", "flag", "value"),
    [
        ("tray", "episode_length", 5),
        ("tray", "fps", 20),
        ("aloha", "task", "AlohaTransferCube-v0"),
        ("pusht", "visualization_height", 96),
        ("pusht", "visualization_width", 96),
        ("gym", "gym_kwargs", {"render_mode": "rgb_array"}),
        ("gym", "instruction", "balance"),
        ("gym", "observation_keys", {"observation.state": "position"}),
        ("gym", "package", "some_package"),
        ("gym", "success_key", "done"),
    ],
)
def test_flags_of_an_environment_reach_it_and_are_kept_with_a_run(kind, flag, value, tmp_path):
    flags = [f"--env.type={kind}", *(["--env.task=CartPole-v1"] if kind == "gym" else [])]
    typed = value if isinstance(value, str) else json.dumps(value)
    config = read_train_config([*BASE, *flags, f"--env.{flag}={typed}"])
    assert getattr(config.env, flag) == value
    write_resolved(config, tmp_path / "config.json")
    assert read_resolved(tmp_path / "config.json") == config
