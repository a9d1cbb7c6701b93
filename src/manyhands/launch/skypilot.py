"""Generates the SkyPilot task of a run, which nodes of any cloud can start."""

import shlex
from typing import Any

from manyhands.config.launch.skypilot import SkyPilotConfig, name_like
from manyhands.errors import ConfigError
from manyhands.launch.job import Job, Quoted, node_words, to_yaml

ADDRESS = '--launch.main_address="$(head -n 1 <<< "$SKYPILOT_NODE_IPS")"'
RANK = '--launch.machine_rank="$SKYPILOT_NODE_RANK"'


def skypilot_task(config: SkyPilotConfig, job: Job) -> str:
    """The task of a run that `sky jobs launch` continues on other nodes when it loses some."""
    faults = [*config.faults(), *job.text_faults()]
    if faults:
        raise ConfigError(faults)
    task: dict[str, Any] = {
        "name": Quoted(config.job_name or name_like(job.name)),
        "num_nodes": config.nodes,
        "resources": resources(config),
    }
    if config.workdir is not None:
        task["workdir"] = Quoted(config.workdir)
    if config.env:
        task["envs"] = {name: Quoted(value) for name, value in config.env.items()}
    if config.mounts:
        task["file_mounts"] = {
            Quoted(path): Quoted(source) for path, source in config.mounts.items()
        }
    if config.setup:
        task["setup"] = Quoted("\n".join(config.setup))
    task["run"] = Quoted(run_line(config, job))
    return to_yaml([task], job.written_by)


def run_line(config: SkyPilotConfig, job: Job) -> str:
    """The shell line of every node."""
    line = shlex.join(node_words(config, job))
    return f"exec {line} {RANK} {ADDRESS}" if config.nodes > 1 else f"exec {line}"


def resources(config: SkyPilotConfig) -> dict[str, Any]:
    """Resources of each node."""
    wanted: dict[str, Any] = {
        "infra": None if config.infra is None else Quoted(config.infra),
        "accelerators": (
            Quoted(f"{config.accelerator}:{config.gpus_per_node}") if config.gpus_per_node else None
        ),
        "cpus": None if config.cpus is None else Quoted(f"{config.cpus}+"),
        "memory": None if config.mem_gb is None else Quoted(f"{config.mem_gb}+"),
        "disk_size": config.disk_gb,
        "image_id": None if config.image is None else Quoted(config.image),
        "use_spot": config.use_spot or None,
        "job_recovery": {"max_restarts_on_errors": config.max_restarts},
    }
    return {name: value for name, value in wanted.items() if value is not None}
