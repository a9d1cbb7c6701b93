"""The CPU form of a command changes sizes and devices, and nothing else."""

from pathlib import Path

import pytest
from cpu_form import cpu_words, launcher_options, manyhands_words, policy_type, train_flags

from manyhands.config.resolve import read_train_config

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
DATA = "--dataset.root=x"


def test_a_run_is_short_small_and_on_the_cpu() -> None:
    flags = train_flags([DATA, "--policy.type=act", "--batch_size=64", "--steps=100000"])
    config = read_train_config(flags)
    assert (config.steps, config.batch_size, config.num_workers) == (2, 4, 0)
    assert config.policy is not None and config.policy.device == "cpu"


@pytest.mark.parametrize("name", ["base_config", "debug_config"])
def test_a_file_is_made_small_too(name: str) -> None:
    config = read_train_config(train_flags(["--config", str(CONFIGS / f"{name}.yaml")]))
    assert (config.steps, config.batch_size) == (2, 2)
    assert getattr(config.policy, "dim_model", None) == 16


def test_what_is_no_size_stays() -> None:
    words = [DATA, "--policy.type=act", "--optimizer.lr=2e-4", "--ema.enable=true"]
    assert train_flags(words)[: len(words)] == words
    words = ["launch", "slurm", "--nodes=2", "--gpus_per_node=8", "--", DATA]
    assert manyhands_words(words) == words


def test_processes_are_two_at_most() -> None:
    assert cpu_words(["--multi_gpu", "--num_processes=8"]) == ["--num_processes=2"]
    assert cpu_words(["--num_processes=1"]) == ["--num_processes=1"]
    file = str(CONFIGS / "fsdp.yaml")
    assert launcher_options(["--config_file", file])[2:] == ["--num_processes=2"]
    file = str(CONFIGS / "my_config_file.yaml")
    assert launcher_options(["--config_file", file])[3:] == ["--mixed_precision=no"]
    assert cpu_words(["--launch.gpu_ids=[0,2]"]) == ["--launch.num_processes=2"]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--policy=act"], "act"),
        (["policy.type=diffusion"], "diffusion"),
        (["--policy.path=lerobot/smolvla_base"], ""),
    ],
)
def test_the_type_of_policy_is_found_in_any_spelling(flags: list[str], expected: str) -> None:
    assert policy_type(flags) == expected
