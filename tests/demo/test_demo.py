"""The demo from end to end, in its shortest form."""

import json

import pytest

from manyhands.config.commands.demo import DemoConfig
from manyhands.demo.demo import NUM_SCORED, fresh_folder, recorded_seeds, run_demo
from manyhands.demo.recipe import choose_recipe
from manyhands.errors import UserError


@pytest.mark.process
def test_the_fast_demo_leaves_dataset_run_report_and_results(tmp_path, capsys):
    folder, results = tmp_path / "demo", tmp_path / "out" / "demo.json"
    assert run_demo(DemoConfig(output_dir=folder, fast=True, json=results)) == 0
    printed = capsys.readouterr().out
    assert "inputs: gripper state" in printed
    assert "untrained" in printed
    assert "manyhands train --resume=" in printed.replace("\n", "")
    report = (folder / "run" / "report.html").read_text()
    assert report.count("<video") == 6 and "untrained" in report
    numbers = json.loads(results.read_text())
    assert numbers["num_episodes"] == 50
    assert numbers["success_before"] == 0.0
    assert 0 <= numbers["success_after"] <= 1
    assert numbers["wall_s"] > 0
    facts = json.loads((folder / "run" / "run.json").read_text())
    assert facts["batch"]["processes"] == 2


def test_recorded_episodes_differ_by_seed_and_are_never_scored():
    recipe = choose_recipe(DemoConfig(), num_gpus=0)
    one, other = recorded_seeds(0, recipe), recorded_seeds(1, recipe)
    assert len(one) == recipe.num_episodes
    assert not set(one) & set(other)
    assert not set(one) & set(range(NUM_SCORED))


def test_an_old_demo_is_not_overwritten(tmp_path):
    (tmp_path / "precious").write_text("x")
    with pytest.raises(UserError, match="not empty"):
        fresh_folder(DemoConfig(output_dir=tmp_path))
