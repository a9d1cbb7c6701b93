"""The cases for several GPUs are right themselves: a few of them on CPUs, and on one GPU."""

import json

import pytest
import torch
from multi_gpu_cases import CPU_CASES, Case, gpu_cases
from multi_gpu_runs import Result, Runs, largest_difference, table_of
from run_report import document

from manyhands.config.resolve import read_train_config
from manyhands.config.sections.optim import ConstantWithWarmupConfig

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.fixture(scope="module")
def cpu_runs(tmp_path_factory, tiny_dataset) -> Runs:
    """Runs on CPUs over gloo."""
    return Runs(tmp_path_factory.mktemp("cpu"), tiny_dataset, "cpu")


@pytest.mark.soak
@pytest.mark.process
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", CPU_CASES, ids=lambda case: case.name)
def test_a_case_passes_on_cpus(case, cpu_runs, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    result = cpu_runs.result_of(case)
    assert result.outcome == "passed"
    assert result.steps_per_s > 0 and result.seconds > 0
    is_compared = case.kind in ("train", "resumed")
    assert (result.loss_difference is not None) == is_compared
    assert not is_compared or result.loss_difference < 1e-4


def rows(folder, losses: dict[int, float]):
    folder.mkdir()
    lines = [json.dumps({"step": step, "loss": loss}) for step, loss in losses.items()]
    (folder / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


def test_losses_that_differ_or_are_missing_are_found(tmp_path):
    one = rows(tmp_path / "one", {4: 2.0, 8: 1.0})
    assert largest_difference(one, one) == 0
    other = rows(tmp_path / "other", {4: 2.0, 8: 1.5, 12: 1.0})
    assert largest_difference(other, one) == 0.5
    with pytest.raises(AssertionError, match="steps"):
        largest_difference(one, other)


def test_results_become_a_table_and_a_document():
    results = [Result("one", "passed", 10.0, 1e-5, 3.0), Result("two", "skipped: why")]
    assert table_of(results).splitlines()[1:] == [
        f"{'one':44}     10.0    1.0e-05        3  passed",
        f"{'two':44}        -          -        -  skipped: why",
    ]
    written = json.loads(document(results))
    assert written["machine"]["torch"] == torch.__version__
    assert written["cases"][0]["loss_difference"] == 1e-5


def test_cases_have_names_of_their_own():
    names = [case.name for case in gpu_cases()]
    assert len(names) == len({*names}) >= 19


@pytest.mark.parametrize("case", [*gpu_cases()], ids=lambda case: case.name)
def test_every_flag_is_known_and_losses_do_not_depend_on_the_number_of_steps(case):
    config = read_train_config(["--dataset.root=data", "--policy.device=cuda", *case.flags])
    assert config.step.mode == case.mode
    assert config.launch.num_processes == case.num_processes
    assert isinstance(config.scheduler, ConstantWithWarmupConfig)


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("policy", ["act", "diffusion"])
def test_a_graph_passes_in_one_process(policy, gpu_runs):
    assert gpu_runs.result_of(Case(policy, mode="graph", num_processes=1)).outcome == "passed"


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("policy", ["act", "diffusion"])
def test_losses_of_micro_batches_are_within_the_tolerance(policy, gpu_runs, monkeypatch):
    # Sums over halves of a batch round as sums over two ranks do.
    case = Case(policy, num_processes=1)
    reference = gpu_runs.reference(case)
    monkeypatch.setitem(gpu_runs.own_flags, policy, ["--batch_size=4"])
    result = gpu_runs.result_of(case)
    assert reference.is_dir() and result.loss_difference > 0
