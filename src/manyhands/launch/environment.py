"""Launcher, GPUs and kernel cache of this process, from its environment."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from manyhands.config.launch.launcher import Launcher, read_launcher, take_over
from manyhands.launch.accelerate import accelerate_command, variables_of
from manyhands.launch.srun import task_variables

KERNELS = "TORCHINDUCTOR_CACHE_DIR"  # Tells torch's compiler where to cache kernels.
RESTARTS = "MANYHANDS_RESTARTS"
"""Set by our own launcher: why processes were started again, so far."""
RESOLVED = "MANYHANDS_RESOLVED"
"""Set by our own launcher: the file of the config that it resolved for all its processes."""
LIBRARY_PATH = "LD_LIBRARY_PATH"
MUJOCO_GL = "MUJOCO_GL"
LOOPBACK_DEVICES = ("lo", "lo0")  # As Linux and macOS call it.


def current_launcher() -> Launcher:
    """Read this process' launcher from its environment."""
    # Settings of srun and accelerate become the variables that torchrun sets and torch reads, and
    # those that manyhands heeds itself are hidden from Accelerate, once for the lifetime of this
    # process and of those it starts.
    os.environ.update(task_variables(os.environ))
    command = accelerate_command()
    if command is not None:
        os.environ.update(variables_of(command, has_ranks="RANK" in os.environ))
    take_over(os.environ)
    launcher = read_launcher(os.environ)
    _use_loopback(launcher)
    return launcher


def _use_loopback(launcher: Launcher) -> None:
    """Let gloo use the loopback device if all ranks are known to run on this machine."""
    # By default gloo uses the address of the host name, which may be wrong, slow or public.
    # Not every launcher sets the number of local ranks.
    are_counted = launcher.started_ranks and "LOCAL_WORLD_SIZE" in os.environ
    if not are_counted or launcher.num_local_ranks != launcher.num_ranks:
        return
    devices = [name for _, name in socket.if_nameindex() if name in LOOPBACK_DEVICES]
    if devices:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", devices[0])


def visible_gpus(gpu_ids: list[int]) -> list[str]:
    """CUDA_VISIBLE_DEVICES entries of the chosen GPUs, indexed among those visible."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = [name.strip() for name in visible.split(",") if name.strip()]
    return [names[number] if names else str(number) for number in gpu_ids]


def num_set_visible() -> int | None:
    """Number of GPUs in CUDA_VISIBLE_DEVICES; None if it is not set."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return None if visible is None else len([name for name in visible.split(",") if name.strip()])


def user_port() -> int | None:
    """The MASTER_PORT that the user set; the one that accelerate sets on the CPU is unused."""
    port = os.environ.get("MASTER_PORT", "")
    by_accelerate = "ACCELERATE_MIXED_PRECISION" in os.environ
    return int(port) if port.isdecimal() and not by_accelerate else None


def keep_compiled(folder: Path) -> None:
    """Cache compiled kernels in a folder for later runs, unless the user set another."""
    os.environ.setdefault(KERNELS, str(folder))


def compiled_kernels_dir() -> Path:
    """The folder of the compiled-kernel cache, for the duration of a run."""
    return Path(os.environ[KERNELS])


def restarts_so_far() -> list[dict[str, Any]]:
    """Reasons for all restarts of this process by our own launcher."""
    restarts: list[dict[str, Any]] = json.loads(os.environ.get(RESTARTS) or "[]")
    return restarts


def resolved_config_file() -> Path | None:
    """The config that our own launcher resolved for this process, and not for those it starts."""
    file = os.environ.pop(RESOLVED, None)
    return None if file is None else Path(file)


T = TypeVar("T")

PROBE = ("-c", "import torch; torch.ones(1, device='cuda').add(1).item()")
DEADLINE_S = 120.0  # How long a GPU may take to answer, the start of a process included.


def may_have_several() -> bool:
    """Whether there may be several GPUs; if so, torch counts them, which is slow to import."""
    known = [count for count in (num_set_visible(), num_driven()) if count is not None]
    return not known or min(known) > 1


def num_driven() -> int | None:
    """Number of GPUs of NVIDIA's driver; None without a driver."""
    return ask_driver(lambda nvml: int(nvml.nvmlDeviceGetCount()))


def ask_driver(ask: Callable[[Any], T]) -> T | None:
    """Query NVIDIA's driver through NVML; None without a driver that answers."""
    import pynvml

    try:
        with nvidia_driver() as nvml:
            return ask(nvml)
    except pynvml.NVMLError:
        return None


@contextmanager
def nvidia_driver() -> Iterator[Any]:
    """NVML, the interface of NVIDIA's driver; raises NVMLError where it cannot be used."""
    import pynvml

    pynvml.nvmlInit()
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def gpus_that_compute(names: Sequence[str]) -> list[str]:
    """Select the GPUs, named as in CUDA_VISIBLE_DEVICES, on which a fresh process can compute."""
    # A separate process probes each GPU, because a failed GPU breaks the process that uses it.
    probes = {name: _probe(name) for name in names}
    deadline = time.monotonic() + DEADLINE_S
    return [name for name, probe in probes.items() if _succeeds(probe, deadline)]


def _probe(name: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *PROBE],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": name},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _succeeds(probe: subprocess.Popen[bytes], deadline: float) -> bool:
    try:
        return probe.wait(max(0.0, deadline - time.monotonic())) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        # A process blocked in a broken driver may not die, so nothing waits for it.
        probe.kill()


def render_without_display() -> None:
    """Let SDL and MuJoCo render in memory, unless the user chose how; read when they load."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        os.environ.setdefault(MUJOCO_GL, "egl")


def mujoco_renderer() -> str:
    """The library that MuJoCo renders with, by its variable; empty without one."""
    return os.environ.get(MUJOCO_GL, "")


@contextmanager
def same_library_path() -> Iterator[None]:
    """Undo OpenCV's change when it is imported: later programs would load its libraries."""
    before = os.environ.get(LIBRARY_PATH)
    try:
        yield
    finally:
        os.environ.pop(LIBRARY_PATH, None)
        if before is not None:
            os.environ[LIBRARY_PATH] = before
