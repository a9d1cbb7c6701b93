"""Kernels are chosen for a run and put back after it."""

import os
import subprocess
import sys

import pytest
import torch

from manyhands.training.step.kernel_choice import kernel_settings


def test_choices_last_as_long_as_the_run(monkeypatch):
    before = torch.get_float32_matmul_precision()
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    with kernel_settings(deterministic=False):
        assert not torch.backends.cudnn.benchmark
        assert torch.get_float32_matmul_precision() == "high"
        assert not torch.backends.cudnn.deterministic
    with kernel_settings(deterministic=True):
        assert torch.backends.cudnn.deterministic
        assert torch.get_float32_matmul_precision() == "highest"
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.backends.cuda.mem_efficient_sdp_enabled()
    assert torch.backends.cudnn.benchmark
    assert torch.backends.cuda.mem_efficient_sdp_enabled()
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_float32_matmul_precision() == before


KEPT = """
import torch
from manyhands.training.step.kernel_choice import kernel_settings
with kernel_settings(deterministic=False):
    torch.optim.AdamW([torch.zeros(1)])
    from torch._inductor.runtime.cache_dir_utils import cache_dir
    print(cache_dir())
"""


@pytest.mark.parametrize("is_chosen", [False, True])
def test_compiled_kernels_are_kept_where_a_person_says_or_with_all_that_runs_share(
    tmp_path, is_chosen
):
    env = {name: value for name, value in os.environ.items() if "INDUCTOR" not in name}
    env["MANYHANDS_HOME"] = str(tmp_path)
    if is_chosen:
        env["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path / "elsewhere")
    said = subprocess.run(
        [sys.executable, "-c", KEPT], env=env, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == str(tmp_path / ("elsewhere" if is_chosen else "compiled"))
