"""Everything that several GPUs do, compared with one; run by make multi-gpu-test."""

import pytest
import torch
from multi_gpu_cases import Case, gpu_cases
from multi_gpu_runs import Result

NUM_GPUS = torch.cuda.device_count()
pytestmark = [
    pytest.mark.multi_gpu,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(NUM_GPUS < 2, reason=f"needs two GPUs, and {NUM_GPUS} are visible"),
]


@pytest.mark.parametrize("case", [*gpu_cases()], ids=lambda case: case.name)
def test_case(case: Case, gpu_runs, recorded, request):
    def work() -> Result:
        if case.num_processes > NUM_GPUS:
            pytest.skip(f"needs {case.num_processes} GPUs, and {NUM_GPUS} are visible")
        if case.policy == "smolvla":
            model = request.getfixturevalue("tiny_vlm")
            gpu_runs.own_flags["smolvla"] = [f"--policy.vlm_model_name={model}"]
        return gpu_runs.result_of(case)

    assert recorded(case, work).outcome.startswith("passed")
