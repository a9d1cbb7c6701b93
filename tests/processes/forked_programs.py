"""Starts programs that are forked, and prints what they printed, as JSON."""

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import forked_python

PYTHON = sys.executable
TELL = """
import json, os, sys
print(json.dumps({
    "argv": sys.argv, "cwd": os.getcwd(), "name": __name__, "given": sys.stdin.read(),
    "greeting": os.environ.get("GREETING"), "is_imported": "torch" in sys.modules,
    "open": sorted(map(int, os.listdir("/proc/self/fd")))[:-1],
    "is_session": os.getsid(0) == os.getpid(), "on_path": sys.path[0],
    "orig_argv": sys.orig_argv,
}))
"""
WAIT = "import time; print('here', flush=True); time.sleep(60)"
PARENT = "import os, time; time.sleep(0.5); print(os.getppid(), os.getpid(), flush=True)"
NESTED = f"{PARENT}; import subprocess, sys; subprocess.run([sys.executable, '-c', {PARENT!r}])"
ENDING = "import atexit; atexit.register(print, 'the end'); print('now')"
IS_FORKED = "import sys; print('torch' in sys.modules)"


def printed(*command: str, **options: object) -> str:
    """What a program prints."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, **options)
    return done.stdout.strip()


def surroundings() -> Iterator[str]:
    """What a forked program and a new interpreter find."""
    Path("tell.py").write_text(TELL)
    Path("there").mkdir()
    script = str(Path("tell.py").resolve())
    environ = os.environ | {"GREETING": "hi"}
    for forked_python.is_enabled in (True, False):
        options = {"input": "hello", "cwd": "there", "env": environ, "start_new_session": True}
        yield printed(PYTHON, script, "a", "b", **options)
    forked_python.is_enabled = True


def kinds() -> Iterator[str]:
    """Programs of all kinds."""
    Path("script.py").write_text("import sys; print(sys.argv[1:])")
    yield printed(PYTHON, "-c", "import sys; print(sys.argv)", "x")
    yield printed(PYTHON, "-m", "manyhands", "--help").split()[0]
    yield printed(str(Path(PYTHON).with_name("manyhands")), "--help").split()[0]
    yield printed(PYTHON, "script.py", "a b")
    yield printed(PYTHON, "-u", str(Path(PYTHON).with_name("manyhands")), "--help").split()[0]
    yield printed(str(Path(PYTHON).with_name("torchrun")), "--help").split()[1]


def exits() -> Iterator[str]:
    """Exit codes."""
    for text in ("import sys; sys.exit(5)", "raise ValueError", "import os; os.abort()"):
        yield str(subprocess.run([PYTHON, "-c", text], stderr=subprocess.DEVNULL).returncode)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen([PYTHON, "-c", WAIT], **streams) as process:
            process.stdout.readline()
            process.send_signal(number)
            yield str(process.wait())


def parents() -> Iterator[str]:
    """This process, then the parent and the number of a program, and those of one it starts."""
    yield str(os.getpid())
    yield from printed(PYTHON, "-c", NESTED).split()[:3]


def spawned() -> Iterator[str]:
    """Processes of multiprocessing: parent, what a queue carries, and what is imported."""
    for method in ("spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.SimpleQueue()
        process = context.Process(target=queue.put, args=(["a", method],))
        process.start()
        process.join()
        yield str([*queue.get(), process.exitcode])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        is_child = pool.apply(os.getppid) == os.getpid()
        yield str([is_child, pool.apply(eval, ["'torch' in __import__('sys').modules"])])


def endings() -> Iterator[str]:
    """What a program prints at its end."""
    yield from printed(PYTHON, "-c", ENDING).splitlines()


def passed() -> Iterator[str]:
    """The port of a socket, here and in a program that it is passed to."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield str(listener.getsockname()[1])
        text = f"import socket; print(socket.socket(fileno={listener.fileno()}).getsockname()[1])"
        yield printed(PYTHON, "-c", text, pass_fds=[listener.fileno()])


def left() -> Iterator[str]:
    """Whether programs are forked that cannot be."""
    Path("custom").mkdir()
    Path("custom", "sitecustomize.py").touch()
    yield printed(PYTHON, "-O", "-c", IS_FORKED)
    yield printed(PYTHON, "-c", IS_FORKED, env=os.environ | {"OMP_NUM_THREADS": "7"})
    yield printed(PYTHON, "-c", IS_FORKED, env=os.environ | {"PYTHONPATH": "custom"})


if __name__ == "__main__":
    forked_python.install_server()
    questions = (surroundings, kinds, exits, parents, spawned, endings, passed, left)
    print(json.dumps({question.__name__: [*question()] for question in questions}))
