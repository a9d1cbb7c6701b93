"""Locks between processes."""

import errno
import fcntl
import multiprocessing
import os
import signal
import threading
import time

import pytest
from workbench import run_in_processes

from manyhands.data.locks import hold_shared, is_in_use, locked


def add_slowly(path, num_times):
    for _ in range(num_times):
        with locked(path.with_suffix(".lock")):
            number = int(path.read_text())
            time.sleep(0.001)
            path.write_text(str(number + 1))


def test_one_process_at_a_time_is_in_the_block(tmp_path):
    path = tmp_path / "number"
    path.write_text("0")
    run_in_processes("fork", add_slowly, [(path, 10)] * 4)
    assert path.read_text() == "40"


def test_one_thread_at_a_time_is_in_the_block(tmp_path):
    path = tmp_path / "number"
    path.write_text("0")
    threads = [threading.Thread(target=add_slowly, args=(path, 10)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() == "40"


def test_users_count_until_the_last_one_leaves(tmp_path):
    path = tmp_path / "users"
    assert not is_in_use(path)
    path.touch()
    assert not is_in_use(path)
    with hold_shared(path):
        with hold_shared(path):
            assert is_in_use(path)
        assert is_in_use(path)
    assert not is_in_use(path)


def test_a_killed_process_is_no_user(tmp_path):
    path = tmp_path / "users"
    path.touch()
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    process = context.Process(target=stay, args=(path, ready))
    process.start()
    assert ready.wait(20) and is_in_use(path)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert not is_in_use(path)


def stay(path, ready):
    with hold_shared(path):
        ready.set()
        signal.pause()


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOTSUP])
def test_a_filesystem_without_locks_ends_nothing(tmp_path, monkeypatch, code):
    def flock(file, kind):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", flock)
    path = tmp_path / "file"
    path.touch()
    with pytest.warns(RuntimeWarning, match="without file locks"), locked(path), hold_shared(path):
        # What may be in use is not removed.
        assert is_in_use(path)


def test_other_faults_of_locks_are_raised(tmp_path, monkeypatch):
    def flock(file, kind):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match="Input/output error"), locked(tmp_path / "file"):
        pass
