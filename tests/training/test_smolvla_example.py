"""The example script that fine-tunes SmolVLA on several GPUs, in its CPU form."""

import json
import os
import sys
from pathlib import Path

import pytest
import torch

from manyhands.config.resolve import read_train_config
from manyhands.training.start import run_training

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "train_smolvla_multi_gpu.sh"
ON_CPU = ("--policy.device=cpu", "--num_workers=0", "--log_freq=1")


@pytest.fixture(scope="module")
def base(task_dataset, tiny_smolvla, tmp_path_factory) -> Path:
    """A saved policy, in the place of smolvla_base."""
    run = tmp_path_factory.mktemp("base") / "run"
    where = (f"--dataset.root={task_dataset}", f"--output_dir={run}")
    run_training(read_train_config([*where, *tiny_smolvla, *ON_CPU, "--steps=1", "--seed=7"]))
    return run


@pytest.fixture
def run_script(command, base, tmp_path):
    """Runs the script on two processes, with settings and flags of its own."""

    def run(settings: dict[str, str], *flags: str, code: int = 0) -> str:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        common = {"POLICY_PATH": str(base / "checkpoints/last/pretrained_model")}
        common |= {"OUTPUT_DIR": str(tmp_path / "run"), "PATH": path}
        common |= {"NUM_GPUS": "2", "BATCH_SIZE": "2"}
        return command.run(["bash", str(SCRIPT), *ON_CPU, *flags], code, common | settings)

    return run


@pytest.mark.process
@pytest.mark.launchers
def test_the_script_trains_from_a_policy_and_goes_on(
    run_script, task_dataset, base, weights, metrics, tmp_path
):
    printed = run_script({"DATASET": str(task_dataset), "STEPS": "2"})
    assert "Number of processes: 2" in printed
    assert "Effective batch: 2 per process x 2" in printed
    printed = run_script({"DATASET": str(task_dataset), "STEPS": "3"}, "--resume=auto")
    assert "Number of processes: 2" in printed
    assert list(metrics(tmp_path / "run")) == [1, 2, 3]
    assert json.loads((tmp_path / "run/run.json").read_text())["ending"] == "finished"
    before, after = weights(base), weights(tmp_path / "run")
    changed = {name for name, value in after.items() if not torch.equal(value, before[name])}
    assert changed and not any(".vlm." in name for name in changed)


@pytest.mark.process
@pytest.mark.launchers
def test_the_script_takes_a_dataset_by_its_name_and_its_own_defaults(
    run_script, task_dataset, tmp_path
):
    (tmp_path / "home/me").mkdir(parents=True)
    (tmp_path / "home/me/tasks").symlink_to(task_dataset)
    settings = {"HF_LEROBOT_HOME": str(tmp_path / "home"), "DATASET": "me/tasks", "STEPS": "1"}
    defaults = {"NUM_GPUS": "", "BATCH_SIZE": ""}
    printed = run_script(settings | defaults, "--peft.method_type=LORA")
    assert "Effective batch: 16 per process x 1 process" in printed
    saved = tmp_path / "run/checkpoints/last/pretrained_model/adapter_model.safetensors"
    assert saved.exists()


def test_the_script_asks_for_a_dataset(command):
    printed = command.run(["bash", str(SCRIPT)], code=1, changes={"DATASET": ""})
    assert "name a folder or a dataset on the Hub" in printed
