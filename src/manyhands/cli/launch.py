"""`manyhands launch slurm`: write a script for sbatch and optionally submit it."""

import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from manyhands.atomic import atomic_file
from manyhands.cli.flags import read_config
from manyhands.config.resolve import choose_job_name, resolve_train_config
from manyhands.config.schema.command_line import read_flags
from manyhands.config.slurm import SlurmConfig
from manyhands.config.train import LaunchConfig, TrainConfig
from manyhands.errors import ConfigError, EnvironmentFault, UserError
from manyhands.launch.slurm import LOGS, Job, sbatch_script

USAGE = """manyhands launch slurm --nodes=2 --gpus_per_node=4 --partition=gpu -- FLAGS OF TRAINING

Writes an sbatch script that trains on all nodes, with the flags of manyhands train after --.
Before its time limit, or when preempted, the job saves a checkpoint and requeues; it resumes from
the checkpoint until the run has finished. --submit=true submits the script."""
SEPARATOR = "--"


def launch_command(arguments: Sequence[str]) -> int:
    """Run the launcher that the first argument names; return the exit code."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if arguments else 2
    if arguments[0] != "slurm":
        raise ConfigError(f"launch {arguments[0]} is unknown; use launch slurm")
    return launch_slurm_command(arguments[1:])


def launch_slurm_command(arguments: Sequence[str]) -> int:
    """Write the script of a job; submit it on request."""
    own, flags = split(arguments)
    config = read_config(SlurmConfig, USAGE, own)
    if flags is None:
        raise ConfigError(f"add {SEPARATOR} and the flags of training: {USAGE.splitlines()[0]}")
    job = build_job(flags, ["manyhands", "launch", "slurm", *arguments])
    write_script(config, sbatch_script(config, job))
    # SLURM opens the log files before the script can create their folder.
    (job.folder / LOGS).mkdir(exist_ok=True)
    if config.submit:
        print(f"{config.script}: submitted as job {submit(config.script)}")
    else:
        print(f"{config.script}: submit it with: {shlex.join(['sbatch', str(config.script)])}")
    return 0


def split(arguments: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Split flags into those of the job and, after a separator, those of training."""
    if SEPARATOR not in arguments:
        return [*arguments], None
    place = [*arguments].index(SEPARATOR)
    return [*arguments[:place]], [*arguments[place + 1 :]]


def build_job(flags: Sequence[str], command: Sequence[str]) -> Job:
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
        written_by=command,
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
        yield "SLURM starts the processes. Remove the --launch flags and use --processes_per_node"


def write_script(config: SlurmConfig, text: str) -> None:
    """Write an executable script; overwrite another file only on request."""
    script = config.script
    if not script.absolute().parent.is_dir():
        raise UserError(f"--script={script}: folder {script.parent} does not exist")
    if script.exists() and not config.overwrite and read_text(script) != text:
        raise UserError(
            f"{script} already exists with other content. Add --overwrite=true or choose another "
            "--script"
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
