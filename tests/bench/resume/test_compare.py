"""Runs compared to the bit."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from manyhands.config.resolve import read_train_config
from manyhands.lerobot_format.files import read_tensors, write_tensors
from manyhands.training.start import run_training
from manyhands_bench.resume.compare import (
    interim_differences,
    last_step,
    run_differences,
    tensor_differences,
)


@pytest.fixture(scope="module")
def finished(command, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("compared") / "run"
    flags = ("--steps=4", "--save_freq=2", "--log_freq=1", "--audit=true", "--ema.enable=true")
    run_training(read_train_config(command.argv(run_dir, *flags)))
    return run_dir


@pytest.fixture
def other(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "other", symlinks=True)
    return tmp_path / "other"


def the_difference(finished: Path, other: Path) -> str:
    (told,) = run_differences(finished, other)
    return told


def test_a_copy_has_no_differences(finished, other):
    assert [*run_differences(finished, other)] == []
    assert [*interim_differences(finished, other)] == []
    assert last_step(finished) == 4 and last_step(other / "nothing") == 0


@pytest.mark.parametrize(
    "file",
    [
        "pretrained_model/model.safetensors",
        "pretrained_model_ema/model.safetensors",
        "training_state/optimizer_state.safetensors",
    ],
)
def test_one_bit_of_one_tensor_is_a_difference(finished, other, file):
    path = other / "checkpoints" / "last" / file
    tensors = read_tensors(path)
    name = next(name for name, value in tensors.items() if value.numel() > 1)
    tensors[name].view(-1).view(torch.uint8)[0] ^= 1
    write_tensors(path, tensors)
    assert f"{name} differs by up to" in the_difference(finished, other)


def test_not_a_number_is_equal_to_itself_alone(tmp_path):
    files = [tmp_path / name for name in ("one", "other")]
    for file, value in zip(files, (float("nan"), 1.0), strict=True):
        write_tensors(file, {"weight": torch.tensor([value])})
    assert [*tensor_differences(files[0], files[0])] == []
    assert len([*tensor_differences(*files)]) == 1


def test_other_tensors_and_shapes_are_differences(tmp_path):
    one, other, third = (tmp_path / name for name in ("one", "other", "third"))
    write_tensors(one, {"weight": torch.zeros(2)})
    write_tensors(other, {"weight": torch.zeros(2), "bias": torch.zeros(1)})
    write_tensors(third, {"weight": torch.zeros(3)})
    assert "['bias']" in next(tensor_differences(one, other))
    assert "weight is torch.float32 [3]" in next(tensor_differences(one, third))


@pytest.mark.parametrize(
    ("file", "change", "told"),
    [
        ("audit/rank-00.jsonl", {"indices": [9]}, "row 4"),
        ("metrics.jsonl", {"loss": 1.0}, "row 4"),
        ("metrics.jsonl", {"kld_loss": 1.0}, "row 4"),
        ("metrics.jsonl", {"step": 5}, "row 4"),
    ],
)
def test_a_row_that_says_something_else_is_a_difference(finished, other, file, change, told):
    *rows, last = (other / file).read_text().splitlines()
    rows.append(json.dumps(json.loads(last) | change))
    (other / file).write_text("\n".join(rows) + "\n")
    assert told in the_difference(finished, other)


def test_times_may_differ_and_missing_rows_may_not(finished, other):
    file = other / "metrics.jsonl"
    *rows, last = file.read_text().splitlines()
    file.write_text("\n".join([*rows, json.dumps(json.loads(last) | {"samples_per_s": 0.1})]))
    assert [*run_differences(finished, other)] == []
    file.write_text("\n".join(rows))
    assert "has 3 rows, not 4" in the_difference(finished, other)


def test_a_run_that_is_not_at_its_end_is_a_difference(finished, other):
    link = other / "checkpoints" / "last"
    link.unlink()
    link.symlink_to("000002")
    assert "is of step 2, not of 4" in the_difference(finished, other)


def test_a_step_that_was_counted_otherwise_is_a_difference(finished, other):
    file = other / "checkpoints/last/training_state/manyhands.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"samples": 1}))
    assert "manyhands.json differs from" in the_difference(finished, other)


def test_what_a_killed_run_left_must_be_whole_or_passed_over(finished, other):
    checkpoints = other / "checkpoints"
    shutil.rmtree(checkpoints / "000004")
    assert "which is missing" in next(interim_differences(finished, other))
    (checkpoints / "last").unlink()
    assert [*interim_differences(finished, other)] == []
    (checkpoints / "000002" / "manifest.json").unlink()
    assert "every checkpoint" in next(interim_differences(finished, other))
    shutil.rmtree(checkpoints)
    assert [*interim_differences(finished, other)] == []
