"""GPUs are counted without torch as far as that goes, and asked whether they compute."""

import pytest
import torch

from manyhands.launch import environment as gpus
from manyhands.launch.environment import ask_driver, gpus_that_compute, may_have_several


@pytest.mark.parametrize(
    ("num_installed", "visible", "several"),
    [
        (None, None, True),
        (None, "", False),
        (None, "3", False),
        (None, "0,1", True),
        (1, None, False),
        (8, None, True),
        (8, "5", False),
        (8, "5,6", True),
        (0, None, False),
    ],
)
def test_one_gpu_at_most_is_told_by_the_driver_or_by_the_environment(
    monkeypatch, num_installed, visible, several
):
    monkeypatch.setattr(gpus, "ask_driver", lambda ask: num_installed)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert may_have_several() == several


def test_a_driver_counts_no_fewer_gpus_than_torch():
    told = ask_driver(lambda nvml: nvml.nvmlDeviceGetCount())
    assert (told or 0) >= torch.cuda.device_count()


def test_gpus_that_compute_are_told_from_one_that_is_not_there():
    names = [str(number) for number in range(torch.cuda.device_count())]
    assert gpus_that_compute([*names, "99"]) == names


def test_nobody_is_asked_about_nothing():
    assert gpus_that_compute([]) == []
