"""`manyhands watch` on the command line."""

import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from manyhands.cli.watch import watch_command
from manyhands.errors import ConfigError, UserError


@pytest.mark.process
def test_the_page_is_served_until_it_is_interrupted(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0}\n')
    command = [sys.executable, "-m", "manyhands", "watch", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            address = process.stdout.readline().decode().split()[0]
            with urllib.request.urlopen(address, timeout=60) as answer:
                assert b"data-live" in answer.read()
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, errors) == (0, b"")


def test_a_busy_port_is_a_usage_error(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with pytest.raises(UserError, match=f"--port={port}: Address already in use"):
            watch_command([str(tmp_path), f"--port={port}"])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ([], UserError, "needs one run directory, not 0"),
        (["a", "b"], UserError, "needs one run directory, not 2"),
        (["/nowhere"], UserError, "/nowhere is not a folder"),
        (["a", "--port=x"], ConfigError, "--port=x: expects an integer"),
    ],
)
def test_usage_errors_are_explained(arguments, error, message):
    with pytest.raises(error, match=message):
        watch_command(arguments)
