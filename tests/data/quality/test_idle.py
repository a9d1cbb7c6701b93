"""Long pauses."""

from manyhands.data.quality.idle import idle_findings
from manyhands.data.quality.motion import Idleness


def test_an_unusual_pause_is_a_note_and_an_episode_at_rest_worth_excluding():
    short = [Idleness(0.05, (0, 5))] * 20
    found = dict(idle_findings([*short, Idleness(0.4, (10, 60)), Idleness(0.95, (0, 95))], fps=10))
    assert set(found) == {20, 21}
    assert not found[20].is_worth_excluding and found[21].is_worth_excluding
    assert found[20].frames == (10, 60) and "no motion for 5.0 s" in found[20].message


def test_pauses_that_all_episodes_have_are_usual():
    assert not dict(idle_findings([Idleness(0.9, (0, 90 + n % 3)) for n in range(20)], fps=10))


def test_nothing_is_said_without_pauses():
    assert not dict(idle_findings([Idleness(0.0, (0, 0))], fps=10))
