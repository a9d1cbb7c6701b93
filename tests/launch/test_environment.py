"""The launcher of this process."""

from manyhands.launch.environment import current_launcher


def test_the_environment_is_read_when_asked(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert current_launcher().rank == 1
