"""Every recipe is a run that its dataset and its environment fit, evaluated once, at its end."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manyhands.config.resolve import read_train_config
from manyhands.config.train import TrainConfig
from manyhands.data.writing.writer import DatasetWriter
from manyhands.demo.demo import record_dataset
from manyhands.sim.build import build_environment
from manyhands.training.periods import Periods
from manyhands.training.setup.data import alone, open_training_data

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
NAMES = sorted(file.stem for file in RECIPES.glob("*.yaml"))
NEEDED = {"pusht": "gym_pusht", "aloha": "gym_aloha"}
VECTOR = {"dtype": "float32", "names": None}
IMAGE = {"dtype": "image", "names": ["height", "width", "channels"]}
RECORDED: dict[str, dict[str, Any]] = {
    "pusht": {
        "observation.state": VECTOR | {"shape": (2,)},
        "observation.image": IMAGE | {"shape": (96, 96, 3)},
        "action": VECTOR | {"shape": (2,)},
    },
    "aloha": {
        "observation.state": VECTOR | {"shape": (14,)},
        "observation.images.top": IMAGE | {"shape": (240, 320, 3)},
        "action": VECTOR | {"shape": (14,)},
    },
}
"""What the datasets of recipes have, by environment."""


def read_recipe(name: str, *flags: str) -> TrainConfig:
    return read_train_config([f"--config_path={RECIPES / name}.yaml", *flags])


def record(root: Path, env: str) -> Path:
    """A short episode like those that recipes learn from."""
    if env == "tray":
        record_dataset(root, [10**6], frame_size=96)
        return root
    draw = np.random.default_rng(0)
    with DatasetWriter.create(root, 10, RECORDED[env]) as writer:
        for _ in range(10):
            frame = {
                name: draw.integers(0, 255, item["shape"], dtype=np.uint8)
                if item["dtype"] == "image"
                else draw.normal(size=item["shape"]).astype("f4")
                for name, item in RECORDED[env].items()
            }
            writer.add_frame({**frame, "task": "try"})
        writer.save_episode()
    return root


def test_there_is_a_recipe_for_every_task():
    tasks = ("pusht", "aloha_cube", "aloha_insertion", "tray")
    assert [f"act_{task}" for task in sorted(tasks)] + ["diffusion_pusht"] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_averaged_weights_are_evaluated_once_at_the_end(name):
    config = read_recipe(name)
    periods = Periods.from_config(config)
    evaluated = [step for step in range(1, config.num_steps + 1) if periods.evaluate(step)]
    assert evaluated == [config.num_steps]
    assert config.ema.enable and config.ema.use_for_eval
    assert config.eval.n_episodes >= 100
    # The same samples in every step, whatever the number of GPUs.
    assert config.global_batch_size is not None and config.batch_size is None


@pytest.fixture
def opened(tmp_path):
    """Resolves a recipe with a dataset like its own."""

    def resolve(name: str) -> TrainConfig:
        env = read_recipe(name).env
        assert env is not None
        root = record(tmp_path / "data", env.type)
        return open_training_data(read_recipe(name, f"--dataset.root={root}"), alone)[1]

    return resolve


def shapes(config: TrainConfig) -> dict[str, tuple[int, ...]]:
    """Shapes of what the policy reads."""
    assert config.policy is not None
    return {name: item.shape for name, item in config.policy.input_features.items()}


@pytest.mark.parametrize("name", NAMES)
def test_its_policy_reads_cameras_of_its_dataset(name, opened):
    config = opened(name)
    assert config.policy.feature_faults() == []
    inputs = shapes(config)
    assert any(name.startswith("observation.image") for name in inputs)
    assert "observation.environment_state" not in inputs


@pytest.mark.parametrize("name", NAMES)
def test_its_environment_has_what_the_policy_reads(name, opened):
    config = opened(name)
    if config.env.type in NEEDED:
        pytest.importorskip(NEEDED[config.env.type], reason="pip install 'manyhands[sim]'")
    environment = build_environment(config.env, shapes(config))
    environment.reset(seed=1000)
    assert environment.observe().keys() == shapes(config).keys()


def test_the_published_success_on_pusht_is_expected_of_its_recipe():
    config = read_recipe("diffusion_pusht")
    assert config.eval.expected_success == (59.5, 67.9)
    assert (config.eval.n_episodes, config.seed) == (500, 1000)


@pytest.mark.process
def test_a_recipe_ends_with_a_verdict(command, tmp_path, tiny_sizes):
    record_dataset(tmp_path / "data", [10**6, 10**6 + 1], frame_size=32)
    reads = "{observation.state: {type: STATE, shape: [4]}, "
    reads += "observation.environment_state: {type: ENV, shape: [4]}}"
    program = [sys.executable, "-m", "manyhands", "train"]
    program += [f"--config_path={RECIPES}/act_tray.yaml", f"--output_dir={tmp_path}/run"]
    program += [f"--dataset.root={tmp_path}/data", f"--policy.input_features={reads}"]
    program += [*tiny_sizes, "--policy.device=cpu", "--num_workers=0", "--steps=2"]
    program += ["--global_batch_size=4", "--eval.n_episodes=3", "--env.episode_length=6"]
    program += ["--eval.expected_success=[0,5]"]
    printed = command.run(program)
    line = "Success 0.0 % [0.0, 56.1] over 3 episodes: reproduced (expected 0 to 5 %)"
    assert line in printed.splitlines()


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_its_command_and_what_is_expected(name):
    page = (RECIPES.parent / "docs" / "recipes.md").read_text("utf-8")
    assert f"--config_path=recipes/{name}.yaml" in page
    (row,) = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
    _, _, num_episodes, _, _, expected, _ = (cell.strip() for cell in row.strip("|").split("|"))
    config = read_recipe(name)
    assert num_episodes == str(config.eval.n_episodes)
    band = config.eval.expected_success
    told = "not measured yet" if band is None else f"{band[0]:g} to {band[1]:g} %"
    assert expected.startswith(told)
