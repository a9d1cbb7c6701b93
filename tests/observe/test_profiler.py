"""Profiles of some steps."""

import gzip
import json

import pytest
import torch

from manyhands.observe.profiler import StepProfiler

CPU = torch.device("cpu")


def run_steps(profiler: StepProfiler, num_steps: int, start: int = 0) -> None:
    for step in range(start + 1, num_steps + 1):
        profiler.before(step)
        torch.ones(3, step) @ torch.ones(step, 2)
    profiler.close()


def products(file) -> list[list[list[int]]]:
    """Input shapes of the matrix products in a trace."""
    events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    return [event["args"]["Input Dims"] for event in events if event["name"] == "aten::mm"]


def test_the_trace_has_the_steps_of_the_range_and_no_others(tmp_path):
    lines: list[str] = []
    run_steps(StepProfiler(tmp_path, range(3, 5), 1, CPU, lines.append), num_steps=9)
    assert products(tmp_path / "profile" / "trace-rank-01.json.gz") == [
        [[3, 3], [3, 2]],
        [[3, 4], [4, 2]],
    ]
    assert lines == [f"Profile of steps 3 to 4: {tmp_path / 'profile'}; open traces with Perfetto"]


def test_a_run_that_ends_early_writes_what_there_is(tmp_path):
    lines: list[str] = []
    run_steps(StepProfiler(tmp_path, range(3, 50), 0, CPU, lines.append), num_steps=4)
    assert len(products(tmp_path / "profile" / "trace-rank-00.json.gz")) == 2
    assert lines[0].startswith("Profile of steps 3 to 4: ")


def test_a_run_that_resumes_inside_the_range_profiles_the_rest(tmp_path):
    lines: list[str] = []
    run_steps(StepProfiler(tmp_path, range(3, 7), 0, CPU, lines.append), num_steps=9, start=4)
    assert products(tmp_path / "profile" / "trace-rank-00.json.gz") == [
        [[3, 5], [5, 2]],
        [[3, 6], [6, 2]],
    ]
    assert len(lines) == 1 and lines[0].startswith("Profile of steps 5 to 6: ")


def test_a_run_that_rolls_back_writes_one_profile(tmp_path):
    lines: list[str] = []
    profiler = StepProfiler(tmp_path, range(2, 4), 0, CPU, lines.append)
    for step in (1, 2, 3, 2, 3, 4, 2, 3, 4):
        profiler.before(step)
        torch.ones(3, step) @ torch.ones(step, 2)
    assert len(products(tmp_path / "profile" / "trace-rank-00.json.gz")) == 4
    assert len(lines) == 1 and lines[0].startswith("Profile of steps 2 to 3: ")


def test_a_run_that_does_not_reach_the_range_writes_nothing(tmp_path):
    run_steps(StepProfiler(tmp_path, range(30, 50), 0, CPU, lambda _: None), num_steps=4)
    assert not (tmp_path / "profile").exists()


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path):
    (tmp_path / "profile").write_text("a file")
    lines: list[str] = []
    run_steps(StepProfiler(tmp_path, range(1, 2), 0, CPU, lines.append), num_steps=2)
    assert lines[0].startswith("WARNING: the profile could not be written")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_on_a_gpu_the_memory_is_recorded_too(tmp_path):
    gpu = torch.device("cuda", 0)
    profiler = StepProfiler(tmp_path, range(1, 2), 0, gpu, lambda _: None)
    profiler.before(1)
    torch.ones(1000, device=gpu).add(1)
    profiler.before(2)
    assert (tmp_path / "profile" / "memory-rank-00.pickle").stat().st_size > 0
