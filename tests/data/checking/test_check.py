"""A whole dataset checked."""

import pytest

from manyhands.data.checking.check import CheckOptions, check_dataset
from manyhands.data.checking.finding import CHECKS


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("thoroughness", ["quick", "full"])
def test_healthy_datasets_of_every_version_are_without_findings(
    check, tiny_roots, place, thoroughness
):
    result = check(tiny_roots[place], thoroughness=thoroughness)
    assert result.findings == ()
    assert all(result.state_of(name) == "ok" for name in CHECKS)
    assert (result.num_episodes, result.num_frames) == (2, 6)
    assert result.thoroughness == thoroughness
    assert not result.cached


def test_progress_goes_on_to_the_end(source_of, plain_root):
    told = []
    check_dataset(
        source_of(plain_root),
        CheckOptions(num_workers=0, on_progress=lambda *pair: told.append(pair)),
    )
    done, totals = zip(*told, strict=True)
    assert list(done) == sorted(done)
    assert done[-1] == totals[-1] == 3 * 14
    assert len({*totals}) == 1


def test_findings_are_told_in_order(check, tiny_root, rewrite):
    file = tiny_root / "data/chunk-000/file-000.parquet"
    rewrite(file, "task_index", lambda values: [9] * len(values))
    rewrite(file, "timestamp", lambda values: [0.0] * len(values))
    findings = check(tiny_root).findings
    assert [(each.check, each.episode) for each in findings] == [
        ("timestamps", 0),
        ("timestamps", 1),
        ("tasks", 0),
        ("tasks", 1),
    ]


def test_real_recordings_have_nothing_bad(shared, check):
    roots = sorted((shared / "fixtures" / "datasets").iterdir())
    assert roots
    for root in roots:
        result = check(root)
        assert result.is_usable, result.findings
        assert {finding.check for finding in result.findings} <= {"numbers"}
