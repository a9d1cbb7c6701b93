"""GPUs are asked whether they compute."""

import torch

from manyhands.launch.gpus import gpus_that_compute


def test_gpus_that_compute_are_told_from_one_that_is_not_there():
    names = [str(number) for number in range(torch.cuda.device_count())]
    assert gpus_that_compute([*names, "99"]) == names


def test_nobody_is_asked_about_nothing():
    assert gpus_that_compute([]) == []
