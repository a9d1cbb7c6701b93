"""Files that guides to multi-GPU training name are there under those names, and work."""

import runpy
import subprocess
from pathlib import Path

import pytest

from manyhands.cli.main import train_main

ACCELERATE_CONFIGS = (
    "accelerate_config_multi_node.yaml",
    "accelerate_config_single_node.yaml",
    "fsdp.yaml",
    "my_config_file.yaml",
)
SCRIPTS = (
    "examples/train_multi_gpu.sh",
    "examples/train_smolvla_multi_gpu.sh",
    "scripts/train_multi_gpu.sh",
    "scripts/train_slurm_multi_node.sh",
)


@pytest.mark.parametrize("name", ACCELERATE_CONFIGS)
def test_a_launcher_config_at_the_root_is_the_one_in_configs(root: Path, name: str) -> None:
    link = root / name
    assert link.is_symlink() and link.readlink() == Path("configs", name)
    assert link.read_bytes() == (root / "configs" / name).read_bytes()


@pytest.mark.parametrize("name", SCRIPTS)
def test_bash_reads_every_script(root: Path, name: str) -> None:
    subprocess.run(["bash", "-n", str(root / name)], check=True)
    assert (root / name).stat().st_mode & 0o100, "not executable"


def test_the_slurm_script_is_what_the_command_writes(root: Path) -> None:
    made = runpy.run_path(str(root / "tools" / "example_scripts.py"))
    text = (root / made["SCRIPT"]).read_text(encoding="utf-8")
    assert text == made["script"](), "run `make docs` and commit scripts/"


def test_the_folder_of_job_logs_exists_before_a_job_opens_them(root: Path) -> None:
    assert (root / "logs").is_dir()


def test_train_py_is_the_training_command(root: Path) -> None:
    assert runpy.run_path(str(root / "train.py"))["train_main"] is train_main
