"""Worker processes are started, watched and ended."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from manyhands.errors import EnvironmentFault
from manyhands.launch.workers import (
    LOOPBACK,
    Machines,
    free_port,
    listen,
    run_workers,
    threads_per_worker,
)

UP = "open(f'up-{os.environ[\"RANK\"]}', 'w')\n"


def command_of(script: str) -> list[str]:
    return [sys.executable, "-c", f"import os, sys, time, signal\n{script}", "word"]


def test_each_rank_gets_its_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = (
        "names = ('RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'LOCAL_WORLD_SIZE', 'MASTER_ADDR')\n"
        "text = ' '.join(os.environ[name] for name in names) + ' ' + sys.argv[1]\n"
        "open(f'rank-{os.environ[\"RANK\"]}', 'w').write(text)\n"
    )
    assert run_workers(2, command_of(script)).code == 0
    seen = [(tmp_path / f"rank-{rank}").read_text() for rank in range(2)]
    assert seen == [f"{rank} {rank} 2 2 127.0.0.1 word" for rank in range(2)]


@pytest.mark.parametrize(("code", "expected"), [(2, 2), (3, 3), (1, 1)])
def test_the_failing_rank_ends_the_others_and_gives_the_exit_code(code, expected):
    start = time.monotonic()
    script = f"time.sleep(60) if os.environ['RANK'] == '1' else sys.exit({code})"
    assert run_workers(2, command_of(script)).code == expected
    assert time.monotonic() - start < 15


def test_a_killed_rank_counts_as_failed_and_is_named(capfd):
    script = "os.kill(os.getpid(), 9) if os.environ['RANK'] == '1' else time.sleep(60)"
    assert run_workers(2, command_of(script)).code == 128 + 9
    assert "rank 1 was killed by SIGKILL" in capfd.readouterr().err


def test_a_rank_that_fails_by_itself_explains_more_than_those_it_drags_down(capfd):
    script = (
        "if os.environ['RANK'] == '0':\n"
        "    sys.exit(76)\n"
        "time.sleep(1)\n"
        "print('the words of rank 1', file=sys.stderr, flush=True)\n"
        "sys.exit(1)\n"
    )
    assert run_workers(2, command_of(script)).code == 1
    first, second = capfd.readouterr().err.splitlines()
    assert first == "the words of rank 1"
    assert "rank 1 failed with exit code 1" in second


def test_a_rank_that_leaves_early_is_named(capfd):
    script = "sys.exit(0) if os.environ['RANK'] == '1' else (time.sleep(0.5), sys.exit(76))"
    assert run_workers(2, command_of(script)).code == 1
    assert "rank 1 exited before the others, with exit code 0" in capfd.readouterr().err


def test_what_a_failed_rank_started_ends_with_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = (
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open(f'child-{os.environ[\"RANK\"]}', 'w').write(str(child.pid))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert run_workers(2, command_of(script)).code == 128 + 9
    pids = [int(file.read_text()) for file in tmp_path.glob("child-*")]
    deadline = time.monotonic() + 60
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert pids
    assert not any(map(is_running, pids))


def is_running(pid: int) -> bool:
    """Whether a process has not ended; one whose end nobody has noted yet has."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_machines_count_on_and_choose_gpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = (
        "names = ('RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'LOCAL_WORLD_SIZE', 'MASTER_ADDR',\n"
        "         'MASTER_PORT', 'CUDA_VISIBLE_DEVICES', 'MANYHANDS_LISTENING')\n"
        "text = ' '.join(os.environ[name] for name in names)\n"
        "open(f'rank-{os.environ[\"RANK\"]}', 'w').write(text)\n"
    )
    machines = Machines(4000, "node0", num_machines=2, rank=1)
    changes = {"CUDA_VISIBLE_DEVICES": "3,4"}
    assert run_workers(2, command_of(script), machines, changes).code == 0
    seen = [(tmp_path / f"rank-{rank}").read_text() for rank in (2, 3)]
    assert seen == [f"{2 + rank} {rank} 4 2 node0 4000 3,4 0" for rank in range(2)]


def test_the_main_rank_inherits_the_port(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = (
        "import socket\n"
        "number = int(os.environ['MANYHANDS_LISTENING'])\n"
        "if number:\n"
        "    port = socket.socket(fileno=number).getsockname()[1]\n"
        "    open('port', 'w').write(f'{port} {os.environ[\"MASTER_PORT\"]}')\n"
    )
    listener = listen(LOOPBACK, None, "nobody")
    port = listener.getsockname()[1]
    assert run_workers(2, command_of(script), Machines(port, listener=listener)).code == 0
    assert (tmp_path / "port").read_text() == f"{port} {port}"


def test_a_port_that_is_taken_is_named():
    with listen(LOOPBACK, None, "nobody") as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EnvironmentFault, match=f"port {port}, set by MASTER_PORT"):
            listen(LOOPBACK, port, "MASTER_PORT")


def test_a_requested_stop_waits_for_every_rank(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = (
        "if os.environ['RANK'] == '0':\n"
        "    time.sleep(1)\n"
        "    open('main-is-done', 'w')\n"
        "sys.exit(75)\n"
    )
    assert run_workers(2, command_of(script)).code == 75
    assert (tmp_path / "main-is-done").exists()


def started(worker, folder):
    """A process that keeps two workers, which both have written that they are up."""
    starter = (
        "import sys; from manyhands.launch.workers import run_workers; "
        f"sys.exit(run_workers(2, {command_of(worker)!r}).code)"
    )
    process = subprocess.Popen([sys.executable, "-c", starter], cwd=folder)
    deadline = time.monotonic() + 60
    while not all((folder / f"up-{rank}").exists() for rank in range(2)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


def test_signals_reach_the_workers_and_none_is_left(tmp_path):
    worker = f"signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))\n{UP}time.sleep(60)\n"
    process = started(worker, tmp_path)
    children = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(30) == 75
    assert not any(child.is_running() for child in children)


def test_a_worker_that_died_of_the_request_was_asked_too_early_and_has_not_failed(tmp_path):
    process = started(f"{UP}time.sleep(60)\n", tmp_path)
    process.terminate()
    assert process.wait(30) == 75


def test_once_one_rank_has_left_on_request_all_are_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = (
        "if os.environ['RANK'] == '1':\n"
        "    sys.exit(75)\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))\n"
        "time.sleep(60)\n"
    )
    start = time.monotonic()
    outcome = run_workers(2, command_of(script))
    assert (outcome.code, outcome.stop_requested) == (75, True)
    assert time.monotonic() - start < 30


def test_workers_end_with_a_launcher_that_is_killed(tmp_path):
    process = started(f"{UP}time.sleep(60)\n", tmp_path)
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) == 2
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive


def test_a_second_ctrl_c_ends_workers_that_do_not_answer(tmp_path):
    worker = (
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"{UP}time.sleep(60)\n"
    )
    process = started(worker, tmp_path)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    assert process.wait(30) == 130


def test_a_free_port_can_be_taken():
    assert 1024 < free_port() < 65536


def test_threads_never_drop_to_zero():
    assert threads_per_worker(10_000) == 1
