"""What a command says before its first step."""

import re
import time

from manyhands.observe.start_phases import StartPhases


def test_every_phase_is_printed_as_it_begins_with_the_time_so_far(capsys):
    phases = StartPhases()
    phases.begin("loading", "PyTorch")
    assert capsys.readouterr().err == "   0.0 s  loading PyTorch\n"
    time.sleep(0.1)
    phases.begin("building the", "policy")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.fullmatch(r"   0\.[1-9] s  building the policy\n", printed.err)


def test_the_end_gives_the_time_of_every_phase_once():
    phases = StartPhases(is_shown=False)
    phases.begin("loading", "PyTorch")
    time.sleep(0.1)
    phases.begin("building the", "policy")
    (line,) = phases.end()
    seconds = r"\d\.\d s"
    assert re.fullmatch(f"first step after {seconds}: PyTorch {seconds}, policy {seconds}", line)
    assert "PyTorch 0.0 s" not in line
    assert phases.end() == []


def test_a_process_that_another_started_continues_its_clock(capsys):
    phases = StartPhases(started=str(time.monotonic() - 3.0))
    phases.begin("loading", "PyTorch")
    assert capsys.readouterr().err == "   3.0 s  loading PyTorch\n"
    (line,) = phases.end()
    assert line == "first step after 3.0 s: processes 3.0 s, PyTorch 0.0 s"


def test_other_ranks_print_nothing(capsys):
    StartPhases(is_shown=False).begin("loading", "PyTorch")
    assert capsys.readouterr().err == ""
