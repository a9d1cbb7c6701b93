"""`manyhands launch`: write the job of a cluster; submit a SLURM job on request."""

import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from manyhands.atomic import atomic_file
from manyhands.cli.flags import Config, read_config
from manyhands.config.launch.kubernetes import KubernetesConfig
from manyhands.config.launch.skypilot import SkyPilotConfig
from manyhands.config.launch.slurm import SlurmConfig
from manyhands.config.resolve import choose_job_name, resolve_train_config
from manyhands.config.schema.command_line import read_flags
from manyhands.config.schema.help import usage_text
from manyhands.config.train import LaunchConfig, TrainConfig
from manyhands.errors import ConfigError, EnvironmentFault, UserError
from manyhands.launch.job import Job
from manyhands.launch.kubernetes import kubernetes_manifest
from manyhands.launch.skypilot import skypilot_task
from manyhands.launch.slurm import LOGS, sbatch_script

USAGE = """manyhands launch slurm --nodes=2 --gpus_per_node=4 --partition=gpu -- FLAGS OF TRAINING

Writes an sbatch script that trains on all nodes, with the flags of manyhands train after --.
Before its time limit, or when preempted, the job saves a checkpoint and requeues; it resumes from
the checkpoint until the run has finished. --submit=true submits the script.

manyhands launch kubernetes and manyhands launch skypilot write such jobs for pods and clouds."""
KUBERNETES_USAGE = """manyhands launch kubernetes --nodes=2 --image=IMAGE -- FLAGS OF TRAINING

Writes an indexed Job, one pod per node, and the headless service by which pods find each other.
An evicted pod saves a checkpoint; its replacement resumes. Submit with kubectl apply."""
SKYPILOT_USAGE = """manyhands launch skypilot --nodes=2 --accelerator=H100 -- FLAGS OF TRAINING

Writes a SkyPilot task. Submit with sky jobs launch, which resumes the run on other nodes when it
loses some, or with sky launch."""
SEPARATOR = "--"
CLUSTERS = ("slurm", "kubernetes", "skypilot")


def launch_command(arguments: Sequence[str]) -> int:
    """Run the launcher that the first argument names; return the exit code."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage_text(USAGE))
        return 0 if arguments else 2
    cluster, *rest = arguments
    match cluster:
        case "slurm":
            return launch_slurm_command(rest)
        case "kubernetes":
            return launch_kubernetes_command(rest)
        case "skypilot":
            return launch_skypilot_command(rest)
    names = ", ".join(f"launch {name}" for name in CLUSTERS)
    raise ConfigError(f"launch {cluster} is unknown; use {names}")


def launch_slurm_command(arguments: Sequence[str]) -> int:
    """Write the script of a job; submit it on request."""
    config, job = read_job("slurm", SlurmConfig, USAGE, arguments)
    write_script(config.script, sbatch_script(config, job), config.overwrite)
    # SLURM opens the log files before the script can create their folder.
    (job.folder / LOGS).mkdir(exist_ok=True)
    if config.submit:
        print(f"{config.script}: submitted as job {submit(config.script)}")
    else:
        print_next(config.script, "sbatch")
    return 0


def launch_kubernetes_command(arguments: Sequence[str]) -> int:
    """Write the manifest of a job."""
    config, job = read_job("kubernetes", KubernetesConfig, KUBERNETES_USAGE, arguments)
    write_script(config.script, kubernetes_manifest(config, job), config.overwrite)
    warn_unless_mounted(job.run_dir, config.working_dir, "--volumes", config.volumes.values())
    print_next(config.script, "kubectl", "apply", "-f")
    return 0


def launch_skypilot_command(arguments: Sequence[str]) -> int:
    """Write a task."""
    config, job = read_job("skypilot", SkyPilotConfig, SKYPILOT_USAGE, arguments)
    write_script(config.script, skypilot_task(config, job), config.overwrite)
    warn_unless_mounted(job.run_dir, None, "--mounts", config.mounts)
    print_next(config.script, "sky", "jobs", "launch")
    return 0


def read_job(
    cluster: str, kind: type[Config], usage: str, arguments: Sequence[str]
) -> tuple[Config, Job]:
    """Read the config of a cluster's job, and the job; raises ConfigError if one is invalid."""
    own, flags = split(cluster, arguments)
    config = read_config(kind, usage, own)
    return config, build_job(cluster, flags, arguments)


def print_next(script: Path, *command: str) -> None:
    """Print the command that submits a file."""
    print(f"{script}: submit it with: {shlex.join([*command, str(script)])}")


def warn_unless_mounted(
    run_dir: Path, working_dir: str | None, flag: str, mounts: Iterable[str]
) -> None:
    """Print a warning if the checkpoints of a run would be deleted with its nodes."""
    place = PurePosixPath(working_dir or "", run_dir)
    if not any(place.is_relative_to(mount) for mount in mounts):
        print(
            f"WARNING: --output_dir={run_dir} is on no mounted volume: nodes do not share its "
            f"checkpoints, and delete them at their end. Set a folder below one of {flag}"
        )


def split(cluster: str, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split flags into those of the job and, after a separator, those of training."""
    if SEPARATOR not in arguments and {"-h", "--help"} & {*arguments}:
        return [*arguments], []
    if SEPARATOR not in arguments:
        example = f"manyhands launch {cluster} ... {SEPARATOR} FLAGS OF TRAINING"
        raise ConfigError(f"add {SEPARATOR} and the flags of training: {example}")
    place = [*arguments].index(SEPARATOR)
    return [*arguments[:place]], [*arguments[place + 1 :]]


def build_job(cluster: str, flags: Sequence[str], arguments: Sequence[str]) -> Job:
    """Build the job; raises ConfigError if the training flags are invalid."""
    command_line = read_flags(flags)
    faults = [f"--{name} is not allowed after {SEPARATOR}" for name in command_line.switches]
    if "resume" in command_line.tree:
        faults.append("Remove --resume: the script resumes the run in --output_dir by itself")
    if faults:
        raise ConfigError(faults)
    config = resolve_train_config(command_line.tree)
    faults = [*run_faults(config)]
    if faults:
        raise ConfigError(faults)
    assert config.output_dir is not None
    return Job(
        program=[sys.executable, "-m", "manyhands"],
        flags=flags,
        run_dir=config.output_dir,
        folder=Path.cwd(),
        name=choose_job_name(config),
        written_by=["manyhands", "launch", cluster, *arguments],
    )


def run_faults(config: TrainConfig) -> Iterator[str]:
    """Yield why a run cannot resume from one job to the next."""
    if config.output_dir is None:
        yield "a requeued job resumes the run in --output_dir. Set --output_dir=DIR"
    if not config.save_checkpoint:
        yield (
            "--save_checkpoint=false leaves no checkpoint to resume a requeued job from. Remove it"
        )
    if config.launch != LaunchConfig():
        yield "the job starts the processes. Remove the --launch flags and use --processes_per_node"


def write_script(script: Path, text: str, overwrite: bool) -> None:
    """Write an executable script; overwrite another file only on request."""
    if script.exists() and not overwrite and read_text(script) != text:
        raise UserError(
            f"--script={script} already exists with other content. Add --overwrite=true, or set "
            "another --script"
        )
    with atomic_file(script) as scratch:
        scratch.write_text(text, encoding="utf-8")
        scratch.chmod(0o755)


def read_text(path: Path) -> str | None:
    """The text of a file; None if it is not text."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def submit(script: Path) -> str:
    """Submit a script; return the job ID."""
    try:
        done = subprocess.run(
            ["sbatch", "--parsable", str(script)], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise EnvironmentFault(
            f"sbatch is not installed here. Submit {script} on a login node of the cluster"
        ) from None
    if done.returncode != 0:
        raise EnvironmentFault(f"sbatch rejected {script}: {done.stderr.strip()}")
    return done.stdout.strip().partition(";")[0]
