"""A whole run."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import manyhands
from manyhands.config.resolve import read_train_config
from manyhands.config.train import TrainConfig
from manyhands.errors import UserError
from manyhands.launch.outcome import Ending
from manyhands.training.start import final_message, run_training
from manyhands_bench.resume.cases import POLICIES

OF_OTHER_RUNS = """
import sys
import manyhands.training.start
from manyhands.training.step.kernel_choice import kernel_settings
slow = {
    "huggingface_hub.hf_api",
    "matplotlib",
    "peft",
    "sympy",
    "torch._dynamo",
    "torch._inductor",
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "transformers",
}
with kernel_settings(deterministic=False):
    print(*sorted(slow & set(sys.modules)))
"""


@pytest.mark.new_interpreter
def test_a_run_begins_without_what_only_other_runs_need():
    done = subprocess.run(
        [sys.executable, "-c", OF_OTHER_RUNS], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_a_fresh_run_never_writes_into_an_old_one(command, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious").write_text("x")
    with pytest.raises(UserError, match=r"--output_dir=.*already contains"):
        run_training(read_train_config(command.argv(tmp_path / "run", "--steps=1")))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["precious"]


def test_folders_without_a_file_are_nothing_that_could_be_lost(command, tmp_path):
    (tmp_path / "run" / "audit").mkdir(parents=True)
    config = read_train_config(command.argv(tmp_path / "run", "--steps=1"))
    assert run_training(config) is Ending.FINISHED


def test_without_output_dir_the_run_is_named_by_time_and_job(
    tiny_act, tiny_dataset, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    flags = [f"--dataset.root={tiny_dataset}", *tiny_act, "--steps=1", "--job_name=reach"]
    run_training(read_train_config(flags), ["manyhands", "train", "--steps=1"])
    (run_dir,) = tmp_path.glob("outputs/train/*/*_reach")
    facts = json.loads((run_dir / "run.json").read_text())
    assert facts["command"] == ["manyhands", "train", "--steps=1"]
    assert facts["ending"] == "finished"
    assert len(facts["dataset"]["fingerprint"]) >= 8


def test_a_run_resumes_from_another_folder_and_where_it_was_moved_with_its_dataset(
    tiny_act, tiny_dataset, tmp_path, monkeypatch
):
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copytree(tiny_dataset, home / "data")
    monkeypatch.chdir(home)
    flags = ["--dataset.root=data", *tiny_act, "--output_dir=runs/a", "--steps=1"]
    run_training(read_train_config(flags))

    monkeypatch.chdir(elsewhere)
    resumed = read_train_config(["--resume=../home/runs/a", "--steps=2"])
    assert resumed.dataset.root == home / "data"
    assert run_training(resumed) is Ending.FINISHED

    home.rename(tmp_path / "moved")
    resumed = read_train_config(["--resume=../moved/runs/a", "--steps=3"])
    assert resumed.dataset.root == tmp_path / "moved" / "data"
    assert run_training(resumed) is Ending.FINISHED
    assert manyhands.train(read_train_config(["--resume=../moved/runs/a"])) is Ending.FINISHED


def test_a_resumed_run_keeps_settings_that_lerobot_lacks(tiny_dataset, tmp_path, metrics):
    flags = [f"--dataset.root={tiny_dataset}", *POLICIES["diffusion"], "--policy.device=cpu"]
    flags += [
        "--num_workers=0",
        "--log_freq=1",
        "--save_freq=2",
        "--policy.scheduler_name=constant",
    ]
    flags += ["--policy.noise_draws_per_sample=3"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run_training(read_train_config([*flags, f"--output_dir={whole}", "--steps=4"]))
    run_training(read_train_config([*flags, f"--output_dir={parts}", "--steps=2"]))
    run_training(read_train_config([f"--resume={parts}", "--steps=4"]))
    assert [metrics(parts)[step]["loss"] for step in (3, 4)] == [
        metrics(whole)[step]["loss"] for step in (3, 4)
    ]


def test_a_directory_that_cannot_be_made_is_a_mistake_not_a_crash(command, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="is a file, not a folder"):
        run_training(read_train_config(command.argv(tmp_path / "file" / "run", "--steps=1")))


def test_a_resumed_run_never_writes_into_another_one(command, tmp_path):
    for name in ("one", "other"):
        run_training(read_train_config(command.argv(tmp_path / name, "--steps=1")))
    flags = [f"--resume={tmp_path / 'one'}", f"--output_dir={tmp_path / 'other'}", "--steps=2"]
    with pytest.raises(UserError, match="already contains a run"):
        run_training(read_train_config(flags))


def test_a_run_ends_with_where_its_policies_are(command, tmp_path, capsys):
    run_training(
        read_train_config(command.argv(tmp_path / "one", "--steps=1", "--ema.enable=true"))
    )
    said = "".join(capsys.readouterr().out.split())
    assert "checkpoints/last/pretrained_model(EMAweights:pretrained_model_ema)" in said
    argv = command.argv(tmp_path / "other", "--steps=1", "--save_checkpoint=false")
    run_training(read_train_config(argv))
    assert "nothing was saved" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["run", "my robot's run", "$HOME; ls"])
def test_the_command_that_continues_a_run_can_be_pasted(name, monkeypatch):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    said = final_message(Ending.STOPPED, Path("outputs", name), TrainConfig())
    command = shlex.split(said.partition("continue with: ")[2])
    assert command == ["manyhands", "train", f"--resume=outputs/{name}"]
