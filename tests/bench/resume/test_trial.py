"""A run that is killed again and again."""

import pytest

from manyhands_bench.resume.cases import NUM_STEPS, case_of, record_dataset
from manyhands_bench.resume.moments import Kill, Moment
from manyhands_bench.resume.processes import starter
from manyhands_bench.resume.trial import Failure, Trial, refuse

SAVES = [
    Kill(
        moment=Moment.SAVE,
        num_updates=2,
        is_late=False,
        place=place,
        victim=0.0,
        by_launcher=False,
    )
    for place in (0.2, 0.6)
]


@pytest.fixture(scope="module")
def starting(tmp_path_factory):
    with starter(tmp_path_factory.mktemp("home")) as starting:
        yield starting


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    root = tmp_path_factory.mktemp("data") / "dataset"
    record_dataset(root)
    return root


@pytest.mark.soak
@pytest.mark.process
def test_a_run_that_equals_its_reference_is_counted_and_removed(starting, dataset, tmp_path):
    told = []
    case = case_of("diffusion-single")
    trial = Trial(case, dataset, tmp_path / "trial", starting, lambda: told.append(1))
    tally = trial.run(SAVES)
    assert tally.failures == [] and len(told) == tally.kills == 2
    assert tally.victims == {"rank 0": 2} and tally.starts == {"forked": 2}
    assert tally.runs == 1 and not (tmp_path / "trial" / "run-01").exists()


@pytest.mark.soak
@pytest.mark.process
def test_a_run_that_differs_is_a_failure_that_tells_the_kills_and_stays(
    starting, dataset, tmp_path
):
    folder = tmp_path / "trial"

    def spoil_reference():
        (folder / "reference" / "audit" / "rank-00.jsonl").write_text("")

    trial = Trial(case_of("diffusion-single"), dataset, folder, starting, spoil_reference)
    tally = trial.run(SAVES[:1])
    (failure,) = tally.failures
    assert f"audit/rank-00.jsonl has {NUM_STEPS} rows, not 0" in failure
    assert "rank 0 in " in failure and "Moment.SAVE" in failure
    assert tally.runs == 0 and (folder / "run-01").is_dir() and (folder / "run-01.log").is_file()


@pytest.mark.soak
@pytest.mark.process
def test_a_run_that_cannot_even_start_is_a_failure_that_shows_its_log(starting, tmp_path):
    trial = Trial(case_of("act-ddp"), tmp_path / "none", tmp_path / "trial", starting, print)
    (failure,) = trial.run(SAVES).failures
    assert "exit code 2" in failure and "none is not a LeRobot dataset" in failure


def test_faults_are_raised_together():
    refuse([])
    with pytest.raises(Failure, match="one\ntwo"):
        refuse(["one", "two"])
