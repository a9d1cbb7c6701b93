"""Progress as lines."""

from manyhands.observe.console import progress_bar
from manyhands.observe.progress_lines import ProgressLines


def test_a_line_is_printed_when_the_last_one_is_old_enough(capsys):
    ProgressLines("checking", period_s=60).show(1, 4)
    assert capsys.readouterr().err == ""
    lines = ProgressLines("checking frames", period_s=0)
    lines.show(0, 4000)
    lines.show(1000, 4000)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "checking frames: 0 of 4,000 (0%)"
    assert second.startswith("checking frames: 1,000 of 4,000 (25%), about ")


def test_a_log_gets_lines_instead_of_a_bar(capsys, monkeypatch):
    monkeypatch.setattr("manyhands.observe.progress_lines.PERIOD_S", 0.0)
    with progress_bar("checking") as on_progress:
        on_progress(1, 2)
    assert capsys.readouterr().err.startswith("checking: 1 of 2 (50%)")
