"""A single process has nobody to wait for."""

from manyhands.parallel.rendezvous import NoWatchdog


def test_nothing_waits_and_a_message_to_oneself_arrives():
    watch = NoWatchdog()
    watch.begin("step")
    with watch.without_timeout("work"):
        watch.publish("done")
        watch.wait_for("never said")
    channel = watch.channel("saving")
    channel.send("place", "here")
    assert channel.receive("place") == "here"
