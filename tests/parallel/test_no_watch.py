"""A single process has nobody to wait for."""

from manyhands.parallel.rendezvous import NoWatch


def test_nothing_waits_and_a_message_to_oneself_arrives():
    watch = NoWatch()
    watch.begin("step")
    with watch.patiently("work"):
        watch.say("done")
        watch.wait_for("never said")
    channel = watch.channel("saving")
    channel.say("place", "here")
    assert channel.hear("place") == "here"
