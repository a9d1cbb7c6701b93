"""The flags of `manyhands push`."""

from manyhands.config.commands.push import PushConfig


def test_a_push_leaves_everything_to_the_run_and_the_account_by_default():
    push = PushConfig()
    assert (push.private, push.license, push.tags, push.faults()) == (None, None, None, [])
