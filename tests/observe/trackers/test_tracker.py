"""What a tracker holds of a run."""

from manyhands.observe.trackers.tracker import Sent


def test_a_new_run_holds_nothing():
    first, second = Sent(), Sent()
    first.evaluated.add((1, "eval/eval_loss"))
    assert (second.last_step, second.evaluated, second.checkpoints) == (0, set(), set())
