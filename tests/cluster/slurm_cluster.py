"""A SLURM cluster of two nodes: real daemons on two hosts of one machine, in a temporary folder."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hosts import Host, two_hosts

START_S = 30
COMMAND_S = 60
CONFIG = """
ClusterName=manyhands
SlurmctldHost=node1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire={cred_expire_s}
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
# Control groups are not to be had in every container.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
GresTypes=gpu
SchedulerParameters=sched_interval=2,bf_interval=2
ReturnToService=2
KillWait=10
NodeName=node[1-2] CPUs=2 Gres=gpu:2 State=UNKNOWN
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=gpu Nodes=ALL Default=YES PriorityTier=1 GraceTime={grace_s}
PartitionName=urgent Nodes=ALL PriorityTier=2 PreemptMode=OFF
"""
GPUS = "Name=gpu File=/dev/tty[0-1]\n"
"""Files that every Linux has stand for GPUs: SLURM only counts them and tells their numbers."""
GRACE_S = 60
"""How long a preempted job may take to leave."""
CRED_EXPIRE_S = 5
"""SLURM keeps a requeued job back until its old credentials have expired, 120 s unless told."""


@dataclass(frozen=True)
class Cluster:
    """A cluster that is up, seen from its login node."""

    folder: Path
    login: Host
    environ: dict[str, str]

    def run(self, *command: str) -> str:
        """What a command on the login node prints; it must succeed."""
        done = self.tried(*command)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}{self.logs()}"
        return done.stdout

    def tried(self, *command: str) -> subprocess.CompletedProcess[str]:
        """A command on the login node, run to its end, whatever that is."""
        return subprocess.run(
            self.login.command(command),
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )

    def is_up(self) -> bool:
        """Whether both nodes wait for jobs."""
        return self.tried("sinfo", "--noheader", "--format=%t %D").stdout == "idle 2\n"

    def facts(self, job: str) -> dict[str, str]:
        """What SLURM knows of a job, by name."""
        words = self.run("scontrol", "--oneliner", "show", "job", job).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def state(self, job: str) -> str:
        """The state of a job, such as RUNNING."""
        return self.facts(job)["JobState"]

    def wait(self, what: Callable[[], bool], deadline_s: float, fault: str) -> None:
        """Wait until something is so; a fault is told with the last words of all daemons."""
        deadline = time.monotonic() + deadline_s
        while not what():
            assert time.monotonic() < deadline, f"{fault}\n{self.logs()}"
            time.sleep(0.2)

    def logs(self) -> str:
        """The last words of the daemons."""
        files = sorted(self.folder.glob("*.log"))
        return "\n".join(f"{file.name}:\n{file.read_text()[-2000:]}" for file in files)


@contextmanager
def slurm_cluster(folder: Path) -> Iterator[Cluster]:
    """Start munged, slurmctld and a slurmd per node; all of them end with their hosts."""
    config = write_files(folder)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    environ["SLURM_CONF"] = str(config)
    with two_hosts(folder) as (first, second):
        cluster = Cluster(folder, first, environ)
        first.start(munged(folder), folder / "munged.log")
        cluster.wait((folder / "munge.socket").exists, START_S, "munged does not start")
        first.start(["slurmctld", "-D", "-c"], folder / "slurmctld.log", environ)
        for host in (first, second):
            host.start(["slurmd", "-D", "-N", host.name], folder / f"{host.name}.log", environ)
        cluster.wait(cluster.is_up, START_S, "nodes do not come up")
        yield cluster


def write_files(folder: Path) -> Path:
    """Everything that daemons read; returns the path of slurm.conf."""
    (folder / "state").mkdir()
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    (folder / "gres.conf").write_text(GPUS)
    config = folder / "slurm.conf"
    config.write_text(CONFIG.format(folder=folder, cred_expire_s=CRED_EXPIRE_S, grace_s=GRACE_S))
    return config


def munged(folder: Path) -> list[str]:
    """The daemon by which the others know each other, with all its files in one folder."""
    places = {"socket": "munge.socket", "key-file": "munge.key", "seed-file": "munge.seed"}
    places |= {"log-file": "munge.words", "pid-file": "munge.pid"}
    files = [f"--{option}={folder / name}" for option, name in places.items()]
    # By force: the folder need not have the permissions that munged would like.
    return ["munged", "--foreground", "--force", *files]
