"""Verdicts on compiled steps outlive the run that made them."""

from dataclasses import replace

import pytest

from manyhands.training.step.verdict import MAX_UNFINISHED, Verdict, Verdicts, trial_key

VERDICT = Verdict(is_faster=True, reason="2.0 ms instead of 3.0 ms per step", graph_ms=3.0)


def test_a_verdict_is_read_as_it_was_written(tmp_path):
    Verdicts(tmp_path).write("key", VERDICT)
    assert Verdicts(tmp_path).read("key") == VERDICT
    assert Verdicts(tmp_path).read("another") is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"is_faster": true}'])
def test_a_damaged_verdict_is_none(tmp_path, text):
    verdicts = Verdicts(tmp_path)
    verdicts.write("key", VERDICT)
    verdicts.path("key").write_text(text)
    assert verdicts.read("key") is None


def test_a_folder_that_cannot_be_written_to_costs_the_verdict_alone(tmp_path):
    (tmp_path / "file").write_text("")
    verdicts = Verdicts(tmp_path / "file")
    verdicts.write("key", VERDICT)
    assert verdicts.read("key") is None


def test_switches_that_do_not_end_are_counted_until_one_does(tmp_path):
    verdicts = Verdicts(tmp_path)
    verdicts.write("key", VERDICT)
    for number in range(MAX_UNFINISHED):
        found = verdicts.read("key")
        assert found is not None and found.is_usable and found.num_unfinished == number
        verdicts.begin_switch("key", found)
    found = verdicts.read("key")
    assert found is not None and not found.is_usable
    verdicts.end_switch("key", found)
    assert verdicts.read("key") == VERDICT
    assert not replace(VERDICT, is_faster=False).is_usable


def test_a_key_depends_on_every_fact():
    assert trial_key({"gpu": "H200", "batch": 8}) == trial_key({"batch": 8, "gpu": "H200"})
    assert trial_key({"gpu": "H200", "batch": 8}) != trial_key({"gpu": "H200", "batch": 9})
