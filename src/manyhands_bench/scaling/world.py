"""Starts processes as training does, and collects their measurements."""

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from manyhands.config.files.config_files import to_yaml
from manyhands.config.resolve import read_train_config
from manyhands.config.train import TrainConfig
from manyhands.launch.environment import visible_gpus
from manyhands.launch.workers import run_workers
from manyhands.plan.communication import Traffic
from manyhands.training.spawn import machine_addresses
from manyhands_bench.scaling.rank import RankReport, RankRequest, measure_rank

CONFIG, REQUEST = "train.yaml", "request.json"


class WorldFailed(Exception):
    """Processes that failed, after reporting why."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"exit code {exit_code}")
        self.exit_code = exit_code


def measure_world(
    config: TrainConfig, num_processes: int, request: RankRequest
) -> list[RankReport]:
    """Start processes that measure a request; return their reports by rank."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = placed(config, num_processes)
        (folder / CONFIG).write_text(to_yaml(config), encoding="utf-8")
        (folder / REQUEST).write_text(json.dumps(asdict(request)), encoding="utf-8")
        exit_code = run_processes(config, num_processes, folder)
        if exit_code != 0:
            raise WorldFailed(exit_code)
        return [read_report(folder, rank) for rank in range(num_processes)]


def placed(config: TrainConfig, num_processes: int) -> TrainConfig:
    """The config for a number of processes; a single one cannot shard weights."""
    assert config.policy is not None
    if num_processes > 1:
        return config
    gpu_ids, policy, degrees = config.launch.gpu_ids, config.policy, config.parallelism
    if gpu_ids is not None:
        policy = replace(policy, device=f"cuda:{gpu_ids[0]}")
    shards = 1 if degrees.dp_shard == 1 else -1
    return replace(
        config, policy=policy, parallelism=replace(degrees, dp_replicate=None, dp_shard=shards)
    )


def run_processes(config: TrainConfig, num_processes: int, folder: Path) -> int:
    """Run `manyhands bench rank` once per rank; return the exit code."""
    command = [sys.executable, "-m", "manyhands", "bench", "rank", str(folder)]
    if num_processes == 1:
        # As in training: a single process has no process group.
        code = subprocess.run(command, check=False).returncode
        return 128 - code if code < 0 else code
    gpu_ids, changes = config.launch.gpu_ids, {}
    if gpu_ids is not None:
        changes["CUDA_VISIBLE_DEVICES"] = ",".join(visible_gpus(gpu_ids[:num_processes]))
    return run_workers(num_processes, command, machine_addresses(config.launch), changes).code


def write_report(folder: Path) -> None:
    """Collective over the started processes. Measure the request in a folder, and report."""
    config = read_train_config([f"--config={folder / CONFIG}"])
    request = json.loads((folder / REQUEST).read_text(encoding="utf-8"))
    report = measure_rank(config, RankRequest(**request))
    text = json.dumps(asdict(report))
    report_file(folder, report.rank).write_text(text, encoding="utf-8")


def read_report(folder: Path, rank: int) -> RankReport:
    """Read the report of a rank."""
    values = json.loads(report_file(folder, rank).read_text(encoding="utf-8"))
    return RankReport(**values | {"traffic": Traffic(**values["traffic"])})


def report_file(folder: Path, rank: int) -> Path:
    """The report file of a rank."""
    return folder / f"rank-{rank:02d}.json"
