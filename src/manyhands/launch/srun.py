"""Converts the variables of SLURM's srun to those of torchrun.

A script that sbatch runs also has some of SLURM's variables, but is not a task of a step: the
number of tasks of a step distinguishes them.
"""

import re
from collections.abc import Mapping

from manyhands.cores import num_cores
from manyhands.errors import EnvironmentFault

FIRST_PORT = 12_000
NUM_PORTS = 20_000  # Ports below those that systems hand out by themselves.


def rank_of(environ: Mapping[str, str]) -> str:
    """The rank that a launcher or srun gives a process; 0 for the only one."""
    return environ["SLURM_PROCID"] if is_task(environ) else environ.get("RANK", "0")


def is_task(environ: Mapping[str, str]) -> bool:
    """Whether a process is one of several tasks, which no other launcher started."""
    is_one = "SLURM_PROCID" in environ and "RANK" not in environ
    return is_one and _num_tasks(environ) > 1


def _num_tasks(environ: Mapping[str, str]) -> int:
    return int(environ.get("SLURM_STEP_NUM_TASKS") or 1)


def task_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables for rank, world size and rendezvous of one of several tasks; empty otherwise."""
    if not is_task(environ):
        return {}
    num_tasks = _num_tasks(environ)
    num_local = _num_local_tasks(environ, num_tasks)
    place = {
        "RANK": environ["SLURM_PROCID"],
        "WORLD_SIZE": str(num_tasks),
        "LOCAL_RANK": environ.get("SLURM_LOCALID", "0"),
        "LOCAL_WORLD_SIZE": str(num_local),
        "MASTER_ADDR": hosts_of(_node_list(environ))[0],
        "MASTER_PORT": str(port_of_step(environ)),
        # The cores that srun binds to a task, else an equal fraction of the node.
        "OMP_NUM_THREADS": environ.get("SLURM_CPUS_PER_TASK")
        or str(max(1, num_cores() // num_local)),
    }
    chosen = ("MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS")
    return place | {name: environ[name] for name in chosen if environ.get(name)}


def port_of_step(environ: Mapping[str, str]) -> int:
    """A port that differs between jobs, and between steps of one job."""
    job, step = (int(environ.get(name) or 0) for name in ("SLURM_JOB_ID", "SLURM_STEP_ID"))
    return FIRST_PORT + (job * 7 + step) % NUM_PORTS


def hosts_of(node_list: str) -> list[str]:
    """Expand a SLURM node list, such as gpu[01-03,7],login1."""
    return [name for part in _split(node_list) for name in _expanded(part)]


def _split(node_list: str) -> list[str]:
    """Split a node list at commas outside of brackets."""
    return re.findall(r"(?:[^,\[]|\[[^\]]*\])+", node_list)


def _expanded(part: str) -> list[str]:
    match = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", part)
    if match is None:
        return [part]
    head, ranges, tail = match.groups()
    numbers = [number for each in ranges.split(",") for number in _numbers(each)]
    return [f"{head}{number}{end}" for number in numbers for end in _expanded(tail)]


def _numbers(text: str) -> list[str]:
    first, _, last = text.partition("-")
    if not first.isdecimal() or (last and not last.isdecimal()):
        raise EnvironmentFault(f"SLURM_JOB_NODELIST contains the invalid range {text}")
    return [str(number).zfill(len(first)) for number in range(int(first), int(last or first) + 1)]


def _node_list(environ: Mapping[str, str]) -> str:
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST")
    if not nodes:
        raise EnvironmentFault("srun started several tasks but did not set SLURM_JOB_NODELIST")
    return nodes


def _num_local_tasks(environ: Mapping[str, str], num_tasks: int) -> int:
    """Number of tasks on this node, from a list such as 4(x2),3."""
    counts: list[int] = []
    listed = environ.get("SLURM_STEP_TASKS_PER_NODE") or environ.get("SLURM_TASKS_PER_NODE", "")
    for number, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", listed):
        counts += [int(number)] * int(times or 1)
    node = int(environ.get("SLURM_NODEID") or 0)
    return counts[node] if node < len(counts) else num_tasks // len(hosts_of(_node_list(environ)))
