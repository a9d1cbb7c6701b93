"""The recipe fits the machine."""

from pathlib import Path

from manyhands.config.check import config_faults
from manyhands.config.commands.demo import DemoConfig
from manyhands.config.files.config_files import to_yaml
from manyhands.config.resolve import read_train_config
from manyhands.config.train import ProcessesConfig
from manyhands.demo.recipe import choose_recipe, train_config_of

ROOT, RUN = Path("data"), Path("run")


def test_a_gpu_learns_from_the_camera_and_a_cpu_from_the_pose():
    assert choose_recipe(DemoConfig(), num_gpus=4).reads_camera
    assert choose_recipe(DemoConfig(), num_gpus=4).num_processes == 4
    assert not choose_recipe(DemoConfig(), num_gpus=0).reads_camera
    assert choose_recipe(DemoConfig(), num_gpus=0).num_processes == 2


def test_the_number_of_processes_can_be_chosen_and_keeps_the_batch():
    config = DemoConfig(launch=ProcessesConfig(num_processes=4))
    recipe = choose_recipe(config, num_gpus=0)
    run = train_config_of(recipe, 0, ROOT, RUN)
    assert (run.launch.num_processes, run.batch_size) == (4, 16)


def test_fast_shortens_everything():
    recipe = choose_recipe(DemoConfig(fast=True), num_gpus=0)
    assert recipe.steps <= 5
    assert recipe.num_episodes <= 5


def test_the_run_is_one_that_flags_could_ask_for(tmp_path):
    for num_gpus in (0, 1):
        run = train_config_of(choose_recipe(DemoConfig(seed=3), num_gpus), 3, ROOT, RUN)
        assert list(config_faults(run)) == []
        file = tmp_path / "run.yaml"
        file.write_text(to_yaml(run))
        assert read_train_config([f"--config={file}"]) == run
