"""Makes Python programs start at once: they are forked off a process that has imported torch.

Importing torch takes seconds, and tests start hundreds of programs. `install` replaces
`subprocess.Popen`, in tests and in the programs they start, and `install_server` what starts
processes of multiprocessing, in tests. A program that is forked is a process
like any other: a child of the one that started it, with its own environment, folder and files.
What a fork cannot stand in for starts as ever: other programs, options of the interpreter, or a
variable that is read when modules are imported.
"""

import array
import atexit
import ctypes
import gc
import importlib
import inspect
import json
import multiprocessing.util
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

PR_SET_CHILD_SUBREAPER = 36
PR_GET_CHILD_SUBREAPER = 37
OURS = "manyhands.cli.main"
COMMANDS = {
    "manyhands": (OURS, "main"),
    "manyhands-train": (OURS, "train_main"),
    "torchrun": ("torch.distributed.run", "main"),
}
"""Console scripts, and the functions that they call."""
SPAWNED = (
    "from multiprocessing.spawn import spawn_main;",
    "from multiprocessing.forkserver import main;",
)
"""Beginnings of programs that multiprocessing starts, but for one that imports next to nothing."""
FAULTHANDLER, UNBUFFERED = ["-X", "faulthandler"], "-u"
PRELOADED = (
    "accelerate",
    "av",
    "numpy.ctypeslib",
    "numpy.ma",
    "psutil",
    "pyarrow.compute",
    "pyarrow.parquet",
    "rich.progress",
    "safetensors.torch",
    "torch._dynamo",
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "yaml",
    "manyhands.cli.main",
    "manyhands.cli.train",
    "manyhands.launch.workers",
    "manyhands.parallel.sharded_engine",
    "manyhands.policies.act.network",
    "manyhands.policies.diffusion.network",
    "manyhands.training.setup.assemble",
    "manyhands.training.loop",
    "manyhands.training.run",
)
READ_AT_IMPORT = (
    "CUDA_",
    "HF_",
    "LD_",
    "MKL_",
    "OMP_",
    "PYTHON",
    "PYTORCH",
    "TORCH",
    "TRANSFORMERS",
)
QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR"}
"""What the commands of manyhands set before they import torch."""
LATER = ("CUDA_VISIBLE_DEVICES", "HF_LEROBOT_HOME", "PYTHONPATH", "TORCH_NCCL_")
READ_LATER = (*LATER, "TORCHELASTIC_", "TORCHINDUCTOR_", *QUIET)
KNOWN = {"restore_signals", "start_new_session", "process_group", "close_fds", "pass_fds"}
PIPES = {"p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite"}
HANDLED = {"self", "args", "executable", "cwd", "env", *KNOWN, *PIPES}

environ_at_import: dict[str, str] = {}
spawn_new = multiprocessing.util.spawnv_passfds  # type: ignore[attr-defined]
server: "Server | None" = None
is_enabled = True
"""Whether programs are forked; not where a test needs a new interpreter."""


class Popen(subprocess.Popen):  # type: ignore[type-arg]
    """A process, forked where it can be."""

    def _execute_child(self, *given: Any) -> None:
        start = super()._execute_child  # type: ignore[misc]
        told = inspect.signature(start).bind(*given).arguments
        request = request_of(told) if is_enabled else None
        if request is None:
            start(*given)
            return
        standard = [told["p2cread"], told["c2pwrite"], told["errwrite"]]
        fds = [number if fd == -1 else fd for number, fd in enumerate(standard)]
        fds += [*told["pass_fds"]]
        self.pid = fork(request, fds) if server is None else server.start(request, fds)
        self._child_created = True
        self._close_pipe_fds(*(told[name] for name in sorted(PIPES, key=list(told).index)))  # type: ignore[attr-defined]


def request_of(told: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a process is asked to run, unless only a new interpreter can."""
    others = {name: value for name, value in told.items() if name not in HANDLED}
    is_plain = not any(value not in (None, False, 0, -1, ()) for value in others.values())
    args = told["args"]
    if not is_plain or told["executable"] is not None or isinstance(args, str | bytes | Path):
        return None
    argv = [os.fspath(each) for each in args]
    environ = {**(os.environ if told["env"] is None else told["env"])}
    if not all(isinstance(each, str) for each in [*argv, *environ, *environ.values()]):
        return None
    program = without_options(argv[5:] if is_tethered(argv) else argv)
    if not is_program(program) or needs_new_interpreter(environ):
        return None
    return {
        "argv": argv,
        "environ": environ,
        "cwd": os.fspath(told["cwd"] or Path.cwd()),
        "is_session": bool(told["start_new_session"]),
        "process_group": told.get("process_group", -1),
        "pass_fds": [*told["pass_fds"]],
    }


def is_tethered(argv: Sequence[str]) -> bool:
    """Whether a command ends with the process that starts it; see launch/tether.py."""
    return argv[:3] == [sys.executable, "-I", "-S"] and argv[3].endswith("tether.py")


def is_program(argv: Sequence[str]) -> bool:
    """Whether a command is one of ours, or a script, module or text for this interpreter."""
    if not argv:
        return False
    program = Path(argv[0])
    if program.name in COMMANDS and program.parent == Path(sys.executable).parent:
        return True
    if argv[0] != sys.executable or len(argv) < 2:
        return False
    # What pip installs may be what is imported here.
    is_module = argv[1] == "-m" and len(argv) > 2 and argv[2] != "pip"
    is_script = argv[1].endswith(".py") or is_program(argv[1:2])
    return is_module or argv[1] == "-c" or is_script


def without_options(argv: Sequence[str]) -> list[str]:
    """A command without the option to write at once, which `run` heeds."""
    return [*argv[:1], *argv[2:]] if [*argv[1:2]] == [UNBUFFERED] else [*argv]


def needs_new_interpreter(environ: Mapping[str, str]) -> bool:
    """Whether a variable differs that modules read once, or a folder customizes the interpreter."""

    def read_once(values: Mapping[str, str]) -> dict[str, str]:
        names = [name for name in values if name.startswith(READ_AT_IMPORT)]
        return {name: values[name] for name in names if not name.startswith(READ_LATER)}

    folders = environ.get("PYTHONPATH", "").split(os.pathsep)
    is_customized = any(Path(each, "sitecustomize.py").exists() for each in folders if each)
    return is_customized or read_once(environ) != read_once(environ_at_import)


def fork(request: dict[str, Any], fds: Sequence[int]) -> int:
    """Run a program in a child of this process."""
    flush()
    pid = os.fork()
    if pid == 0:
        become(request, fds)
    return pid


def flush() -> None:
    """Write out what a fork would write a second time."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


def become(request: dict[str, Any], fds: Sequence[int]) -> NoReturn:
    """Be a program from its first line to its exit code."""
    global server
    server = None
    code = 1
    try:
        settle(request, fds)
        run(request["argv"])
        code = 0
    except SystemExit as error:
        code = exit_code(error)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
    leave(code)


def settle(request: dict[str, Any], fds: Sequence[int]) -> None:
    """Take the place that a process is given."""
    atexit._clear()
    if request["is_session"]:
        os.setsid()
    elif request["process_group"] >= 0:
        os.setpgid(0, request["process_group"])
    for number in range(1, signal.NSIG):
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    take_fds(fds, [0, 1, 2, *request["pass_fds"]])
    os.environ.clear()
    os.environ.update(request["environ"])
    os.chdir(request["cwd"])
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    added = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[:] = [*added, *(each for each in sys.path if each not in added)]
    importlib.invalidate_caches()


def take_fds(given: Sequence[int], wanted: Sequence[int]) -> None:
    """Have open files under other numbers, and no others."""
    # Out of the way first: one may have the number that another is to get.
    moved = [os.dup(fd) for fd in given]
    while any(fd in wanted for fd in moved):
        moved = [os.dup(fd) if fd in wanted else fd for fd in moved]
    for fd, number in zip(moved, wanted, strict=True):
        os.dup2(fd, number)
    for fd in {int(file.name) for file in Path("/proc/self/fd").iterdir()} - {*wanted}:
        # One of them was for reading the folder.
        with suppress(OSError):
            os.close(fd)


def run(argv: Sequence[str]) -> None:
    """Run a command line as the interpreter would."""
    if is_tethered(argv):
        from manyhands.launch.tether import end_with

        end_with(int(argv[4]))
        argv = argv[5:]
    sys.orig_argv = [*argv]
    if argv[1:2] == [UNBUFFERED]:
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
        argv = without_options(argv)
    if is_program(argv[1:2]):
        argv = argv[1:]
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    if (name := Path(argv[0]).name) in COMMANDS:
        sys.argv = [*argv]
        module, function = COMMANDS[name]
        sys.exit(getattr(importlib.import_module(module), function)())
    elif argv[1] == "-m":
        sys.argv, sys.path[:0] = [*argv[2:]], [str(Path.cwd())]
        runpy.run_module(argv[2], run_name="__main__", alter_sys=True)
    elif argv[1] == "-c":
        sys.argv, sys.path[:0] = ["-c", *argv[3:]], [""]
        exec(compile(argv[2], "<string>", "exec"), main.__dict__)
    else:
        sys.argv, sys.path[:0] = [*argv[1:]], [str(Path(argv[1]).resolve().parent)]
        main.__file__ = argv[1]
        exec(compile(Path(argv[1]).read_bytes(), argv[1], "exec"), main.__dict__)


def exit_code(error: SystemExit) -> int:
    """What an interpreter makes of sys.exit."""
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    print(error.code, file=sys.stderr)
    return 1


def leave(code: int) -> NoReturn:
    """End as an interpreter does: after threads and what was asked to run last."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        flush()
    finally:
        os._exit(code & 0xFF)


class Server:
    """The process that has everything imported, seen from the one that tests run in."""

    others: Sequence[str] = ()
    """Packages that it imports too, if they are installed."""

    @cached_property
    def _socket(self) -> socket.socket:
        """Made when the first program is started: some processes start none."""
        own, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        subprocess.Popen(
            # An option that no program has, so that this one is not forked.
            [sys.executable, "-X", "faulthandler", __file__, str(its.fileno()), *self.others],
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
            env=environ_at_import | QUIET,
        )
        its.close()
        return own

    def start(self, request: dict[str, Any], fds: Sequence[int]) -> int:
        """Have a program forked; it becomes a child of this process."""
        content = json.dumps(request).encode()
        with memory_file(content) as file:
            rights = array.array("i", [file.fileno(), *fds])
            with adopting():
                self._socket.sendmsg(
                    [b"fork"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights.tobytes())]
                )
                return int(self._socket.recv(20))


@contextmanager
def adopting() -> Iterator[None]:
    """Become the parent of those below whose own parent ends."""
    prctl, before = ctypes.CDLL(None).prctl, ctypes.c_int()
    prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(before))
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, before.value)


def memory_file(content: bytes) -> Any:
    """An open file of some bytes: an environment may be larger than a packet."""
    file = os.fdopen(os.memfd_create("request"), "wb+")
    file.write(content)
    file.flush()
    return file


def serve(connection: socket.socket, others: Sequence[str] = ()) -> None:
    """Fork what is asked for until nobody asks any more."""
    install()
    for name in PRELOADED:
        importlib.import_module(name)
    for name in others:
        with suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    while True:
        _, rights, _, _ = connection.recvmsg(10, socket.CMSG_SPACE(100 * 4))
        if not rights:
            return
        fds = array.array("i", rights[0][2])
        connection.send(fork_for_parent(json.loads(os.pread(fds[0], 1 << 24, 0)), fds[1:]))
        for fd in fds:
            os.close(fd)


def fork_for_parent(request: dict[str, Any], fds: Sequence[int]) -> bytes:
    """Run a program in a process that is a child of the parent of this one; its number."""
    source, target = os.pipe()
    # The process in between ends, and leaves its child to an ancestor.
    between = os.fork()
    if between == 0:
        parent = os.getpid()
        orphan = os.fork()
        if orphan == 0:
            while os.getppid() == parent:
                time.sleep(0.001)
            become(request, fds)
        os.write(target, str(orphan).encode())
        os._exit(0)
    os.waitpid(between, 0)
    number = os.read(source, 20)
    os.close(source)
    os.close(target)
    return number


def install() -> None:
    """Fork programs from here on."""
    environ_at_import.update(os.environ)
    subprocess.Popen = Popen  # type: ignore[misc]


def install_server() -> None:
    """Fork programs from here on, off a process that does nothing else."""
    global server
    server = Server()
    install()
    multiprocessing.util.spawnv_passfds = spawn  # type: ignore[attr-defined]


def spawn(path: bytes, args: Sequence[str | bytes], passed: Sequence[int]) -> int:
    """Start a process of multiprocessing, forked where it can be; returns its number."""
    argv = [os.fsdecode(each) for each in args]
    if argv[1:3] == FAULTHANDLER:
        del argv[1:3]
    is_known = argv[1:2] == ["-c"] and argv[2].startswith(SPAWNED)
    if server is None or not is_enabled or not is_known or needs_new_interpreter(os.environ):
        return spawn_new(path, args, passed)
    request = {"argv": argv, "environ": {**os.environ}, "cwd": os.fspath(Path.cwd())}
    request |= {"is_session": False, "process_group": -1, "pass_fds": [*passed]}
    return server.start(request, [0, 1, 2, *passed])


if __name__ == "__main__":
    sys.modules["forked_python"] = sys.modules["__main__"]
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
