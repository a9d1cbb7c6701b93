"""The verdict on a run: none on a healthy one, warnings first."""

from diagnosis_cases import RUN, healthy_rows, rank_rows
from hypothesis import given
from hypothesis import strategies as st

from manyhands.observe.diagnosis.diagnose import diagnose, verdict_lines


@given(
    seed=st.integers(0, 2**32 - 1),
    num_rows=st.integers(0, 250),
    noise=st.floats(0.0, 0.3),
    num_ranks=st.integers(0, 8),
)
def test_a_healthy_run_gets_none(seed, num_rows, noise, num_ranks):
    rows = healthy_rows(num_rows, seed, noise)
    assert diagnose(RUN, rows, rank_rows(rows, num_ranks)) == []


@given(seed=st.integers(0, 2**32 - 1), switch=st.integers(1, 59), factor=st.floats(0.3, 1.0))
def test_a_switch_to_faster_steps_is_no_problem(seed, switch, factor):
    rows = healthy_rows(60, seed)
    for row in rows[switch + 1 :]:
        row |= {name: factor * row[name] for name in row if name.endswith("_s")}
    rows[switch]["step_s"] *= 20
    assert diagnose(RUN, rows, rank_rows(rows)) == []


def test_files_of_an_older_version_are_judged_by_what_they_have():
    names = ("step", "loss", "lr", "grad_norm", "samples_per_s", "step_s", "data_s")
    rows = [{name: row[name] for name in names} for row in healthy_rows(60)]
    assert diagnose({}, rows, []) == []
    for row in rows:
        row["data_s"] = 0.5 * row["step_s"]
    (found,) = diagnose({}, rows, [])
    assert found.kind == "decode_bound"


def test_warnings_come_before_notes():
    rows = [{**row, "gpu_memory_share": 0.99} for row in healthy_rows(60)]
    for row in rows:
        row["loss"] = row["grad_norm"] = row["step"]
    assert [each.kind for each in diagnose(RUN, rows, [])] == ["lr_too_high", "memory_nearly_full"]


def test_the_verdict_has_the_utilization_and_every_problem():
    rows = [{**row, "gpu_utilization": 0.43} for row in healthy_rows(20)]
    found = diagnose(RUN, rows, [])
    utilization, problem = verdict_lines(RUN, rows, found)
    assert utilization == "GPU utilization: 43% (poor)"
    assert problem.startswith("WARNING: Steps are too small") and "--batch_size=16" in problem


def test_the_verdict_on_a_cpu_run_without_problems_is_short():
    rows = [{**row, "gpu_utilization": None} for row in healthy_rows(20)]
    assert verdict_lines(RUN, rows, []) == ["Diagnosis: no problem found"]
    assert verdict_lines(RUN, rows[:3], []) == []


ODD = st.none() | st.booleans() | st.floats() | st.text(max_size=3) | st.lists(st.integers())


@given(
    names=st.lists(st.sampled_from(["step", "step_s", "data_s", "loss", "communication_s"])),
    value=ODD,
    number=st.integers(0, 59),
)
def test_damaged_rows_are_no_reason_to_fail(names, value, number):
    rows = healthy_rows(60)
    ranks = rank_rows(rows)
    for name in names:
        rows[number][name] = ranks[number][name] = value
    assert isinstance(diagnose(RUN, rows, ranks), list)
