"""Runs commands, each in a fork: reads a line of JSON for each, and prints one.

Nothing has started a thread when this process forks, so that torch works in the forks.
"""

import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import runpy
import shutil
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from manyhands.cli import main
from manyhands.config.schema.decoding import flags_of
from manyhands.config.train import TrainConfig
from manyhands.errors import UserError

LONG = ("bench", "demo", "watch")
"""Commands that take long once nothing is wrong; they are stopped."""
DEADLINE_S, STOP_S = 30, 1
CAPABILITY_VERSION = 0x20080522
PRELOADED = (
    # The first optimizer of each process would load it.
    "torch._dynamo",
    *("manyhands.training.start", "manyhands.plan.plan", "manyhands.report.runs.run_page"),
    *("manyhands.parallel.accelerate_engine", "manyhands.policies.act.network"),
    *("manyhands.evaluation.open_loop_run", "manyhands.doctor.machine", "manyhands.doctor.run"),
    *("manyhands.report.runs.live_page", "manyhands.report.runs.server"),
    *("manyhands.data.cache.fill", "manyhands.data.checking.check", "manyhands.doctor.dataset"),
    *("manyhands.report.datasets.dataset_page", "jinja2", "matplotlib.figure"),
    "manyhands.cli.train",
)


def serve() -> None:
    """Run commands until standard input ends."""
    for name in main.COMMANDS:
        main.find_command(name)
    for name in PRELOADED:
        importlib.import_module(name)
    # What every fork needs is found once: flags are read from the source of their configs.
    list(flags_of(TrainConfig))
    gc.freeze()
    for line in sys.stdin:
        print(json.dumps(answer(**json.loads(line))), flush=True)


def answer(folder: str, words: Sequence[str], removed: Sequence[str]) -> tuple[int, str]:
    """The exit code of a command in a folder without some files, and what it printed."""
    for name in removed:
        shutil.rmtree(Path(folder, name), ignore_errors=True)
        Path(folder, name).unlink(missing_ok=True)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        run(folder, words, writer)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8", errors="replace") as printed:
        text = printed.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text


def run(folder: str, words: Sequence[str], writer: int) -> NoReturn:
    """Become the command, which prints to a pipe."""
    code: Any = 1
    try:
        for number in (1, 2):
            os.dup2(writer, number)
        sys.stdin = io.StringIO()
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
        os.chdir(folder)
        signal.alarm(STOP_S if words[1] in LONG else DEADLINE_S)
        drop_capabilities()
        sys.argv = [*words]
        code = call(words)
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def call(words: Sequence[str]) -> int:
    """Run `manyhands ...`, or `python FILE`, whose usage errors end it as in a shell."""
    if words[0] == "manyhands":
        main.main()
    try:
        if words[1] == "-c":
            exec(words[2], {"__name__": "__main__"})
        else:
            runpy.run_path(words[1], run_name="__main__")
    except UserError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def drop_capabilities() -> None:
    """Let permissions apply also where root runs the tests."""
    if os.geteuid() == 0:
        header, nothing = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
        assert ctypes.CDLL(None).capset(header, nothing) == 0


if __name__ == "__main__":
    serve()
