"""The command line as a whole."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import manyhands
from manyhands.cli.main import main, run_guarded, train_command, unknown_command
from manyhands.errors import ConfigError, Diverged, RankLost, Stopped, UserError


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "manyhands", *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_without_a_command_the_usage_is_shown():
    done = run()
    assert done.returncode == 2
    assert "manyhands train" in done.stdout


def test_help_is_an_answer_not_a_mistake():
    done = run("--help")
    assert done.returncode == 0
    assert "manyhands demo" in done.stdout


SOURCE = Path(manyhands.__file__).parent


def run_script(file: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(file), *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("file", ["__main__.py", "cli/main.py"])
def test_the_main_file_as_a_script_is_the_command(file):
    done = run_script(SOURCE / file, "train", "--stepps=3")
    assert done.returncode == 2
    assert "unknown flag --stepps; did you mean --steps?" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_no_script_says_what_to_run():
    done = run_script(SOURCE / "cli" / "train.py", "--policy.type=act")
    assert done.returncode == 2
    assert (
        done.stderr == "manyhands: not started as a script. Run: python -m manyhands train FLAGS\n"
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [("trian", "train"), *((name, "--version") for name in ("version", "-v", "-V"))],
)
def test_an_unknown_command_is_named_with_the_nearest(name, meant):
    assert str(unknown_command(name)) == f"unknown command {name}; did you mean {meant}?"


def test_a_flag_without_a_command_is_shown_behind_one():
    assert str(unknown_command("--lr=3")).endswith(", as manyhands train --lr=3")


def test_an_unknown_command_is_a_usage_error():
    done = run("trian")
    assert done.returncode == 2
    assert done.stderr == "manyhands: unknown command trian; did you mean train?\n"


@pytest.mark.parametrize(("error", "code"), [(UserError("a\nb"), 2), (Diverged("a\nb"), 3)])
def test_a_mistake_is_told_line_by_line_with_its_exit_code(error, code, capsys):
    def command(_arguments):
        raise error

    assert run_guarded(command, []) == code
    assert capsys.readouterr().err == "manyhands: a\nmanyhands: b\n"


def test_the_rank_that_speaks_for_all_does_so_at_once(monkeypatch, capsys):
    monkeypatch.setenv("RANK", "1")
    error = UserError("bad")
    error.rank = 1

    def command(_arguments):
        raise error

    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail(f"it waits {seconds} s"))
    assert run_guarded(command, []) == 2
    assert capsys.readouterr().err == "manyhands rank 1: bad\n"


def test_a_main_rank_that_speaks_for_all_is_named_too(monkeypatch, capsys):
    monkeypatch.setenv("RANK", "0")
    error = UserError("bad")
    error.rank = 0

    def command(_arguments):
        raise error

    assert run_guarded(command, []) == 2
    assert capsys.readouterr().err == "manyhands rank 0: bad\n"
    assert error.is_reported


@pytest.mark.parametrize("rank", ["0", "1"])
def test_an_error_that_all_ranks_have_names_none(rank, monkeypatch, capsys):
    monkeypatch.setenv("RANK", rank)
    error = ConfigError("bad")
    error.rank = int(rank)

    def command(_arguments):
        raise error

    assert run_guarded(command, []) == 2
    assert capsys.readouterr().err == "manyhands: bad\n"


def test_a_rank_that_lost_another_leaves_in_silence(monkeypatch, capsys):
    monkeypatch.setenv("RANK", "1")

    def command(_arguments):
        raise RankLost

    assert run_guarded(command, []) == RankLost.exit_code
    assert capsys.readouterr().err == ""


def test_a_request_to_stop_has_an_exit_code_of_its_own_and_is_told_once(monkeypatch, capsys):
    def stopped(_):
        raise Stopped

    told = "manyhands: stopped on request; nothing to save\n"
    for rank, said in (("1", ""), ("0", told)):
        monkeypatch.setenv("RANK", rank)
        assert run_guarded(stopped, []) == 75
        assert capsys.readouterr().err == said


def test_our_own_bugs_keep_their_traceback():
    def command(_arguments):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_guarded(command, [])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("file", [None, "out.json"])
def test_a_full_disk_is_told_without_a_traceback(number, file, capsys):
    def command(_arguments):
        raise OSError(number, "as some library words it", file)

    assert run_guarded(command, []) == 2
    told = f"manyhands: cannot write{f' {file}' if file else ''}: {os.strerror(number)}. Free disk"
    assert capsys.readouterr().err.startswith(told)


def test_other_faults_of_the_system_keep_their_traceback():
    def command(_arguments):
        raise OSError(errno.EIO, "of the device")

    with pytest.raises(OSError, match="of the device"):
        run_guarded(command, [])


def test_a_reader_that_leaves_early_is_no_fault():
    script = f"{Path(sys.executable).with_name('manyhands')} train --help | head -1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def run_unread(stream: str, unbuffered: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose output or errors nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: writer}
    environ = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    command = [sys.executable, "-m", "manyhands", *argv]
    try:
        return subprocess.run(command, **streams, text=True, env=environ, timeout=60, check=False)
    finally:
        os.close(writer)


# Python writes buffered output at exit, where nothing of ours handles an error.
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("argv", [[], ["--help"], ["--version"], ["status", "--help"]], ids=str)
def test_every_answer_may_lose_its_reader(argv, unbuffered):
    done = run_unread("stdout", unbuffered, *argv)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("argv", [["trian"], ["status", "nowhere"]], ids=str)
def test_an_error_that_nobody_reads_keeps_its_exit_code(argv, unbuffered):
    assert run_unread("stderr", unbuffered, *argv).returncode == 2


def test_a_stop_that_nobody_reads_about_keeps_its_exit_code(monkeypatch):
    def stopped(_):
        raise Stopped

    def interrupted(_):
        raise KeyboardInterrupt

    def unread(_text):
        raise BrokenPipeError

    monkeypatch.setattr("manyhands.cli.main.print_over_echo", unread)
    assert run_guarded(stopped, []) == 75
    assert run_guarded(interrupted, []) == 130


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_told_also_at_exit(unbuffered):
    command = [sys.executable, "-m", "manyhands", "--version"]
    environ = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=environ, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith("manyhands: cannot write: No space left on device.")
    assert len(done.stderr.splitlines()) == 1


def test_main_leaves_with_the_commands_exit_code(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["manyhands", "train", "--steps=x"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "--steps=x" in capsys.readouterr().err


@pytest.mark.parametrize(("set_by_hand", "level"), [(None, "ERROR"), ("INFO", "INFO")])
def test_stacks_of_torch_about_a_rank_that_ended_are_not_shown(monkeypatch, set_by_hand, level):
    monkeypatch.setenv("TORCH_CPP_LOG_LEVEL", "")
    monkeypatch.delenv("TORCH_CPP_LOG_LEVEL")
    if set_by_hand is not None:
        monkeypatch.setenv("TORCH_CPP_LOG_LEVEL", set_by_hand)
    assert train_command(["--help"]) == 0
    assert os.environ["TORCH_CPP_LOG_LEVEL"] == level


@pytest.mark.parametrize("told", ["", "continue with the same command"])
def test_an_interrupted_command_says_so(told, capsys):
    def command(_arguments):
        raise KeyboardInterrupt(*([told] if told else []))

    assert run_guarded(command, []) == 130
    assert capsys.readouterr().err == f"manyhands: {told or 'interrupted'}\n"
