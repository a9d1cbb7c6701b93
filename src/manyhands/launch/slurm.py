"""Generates the sbatch script of a SLURM job from a config and the training flags."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from manyhands.config.launch.slurm import BREAKS_A_LINE, SlurmConfig
from manyhands.errors import ConfigError
from manyhands.launch.job import Job

TEMPLATE = Path(__file__).with_name("train.sbatch")
MARK = re.compile("@([A-Z_]+)@")
LOGS = Path("logs")
REQUEUE = """    # Requeue the job unless it was canceled.
    state=$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T)
    if [[ $state != COMPLETING && $state != CANCELLED ]]; then
        echo "stopped on request; requeued to continue"
        scontrol requeue "$SLURM_JOB_ID"
    fi"""
SUBMIT_AGAIN = """    echo "stopped on request; submit again to continue"
    code=75"""


def line_faults(job: Job) -> list[str]:
    """Texts that the script cannot contain, each with its flag."""
    return [
        f"{flag}: {text!r} {BREAKS_A_LINE}" for flag, text in job.texts() if not text.isprintable()
    ]


def sbatch_script(config: SlurmConfig, job: Job) -> str:
    """Generate a script that can be submitted repeatedly until the run has finished."""
    faults = [*config.faults(), *line_faults(job)]
    if faults:
        raise ConfigError(faults)
    command = [shlex.join([*job.program, "train"]), *map(shlex.quote, job.flags)]
    exports = [f"export {name}={shlex.quote(value)}" for name, value in config.env.items()]
    # A step inherits tasks and GPUs, but cores only in some versions of SLURM.
    cores = [] if config.cpus_per_task is None else [f"--cpus-per-task={config.cpus_per_task}"]
    values = {
        "SUBMIT": shlex.join(["sbatch", str(config.script)]),
        "WRITTEN_BY": " ".join(shlex.join(job.written_by).splitlines()),
        "DIRECTIVES": "\n".join(directives(config, job)),
        "SETUP": "".join(f"{line}\n" for line in (*config.setup, *exports)),
        "RUN_DIR": shlex.quote(str(job.run_dir)),
        "TRAIN": "\n".join(f"    {line}" for line in command),
        "SRUN": shlex.join(["--kill-on-bad-exit=1", "--export=ALL", *cores]),
        "LEAVE": REQUEUE if config.requeue else SUBMIT_AGAIN,
    }
    return MARK.sub(lambda mark: values[mark[1]], TEMPLATE.read_text(encoding="utf-8"))


def directives(config: SlurmConfig, job: Job) -> Iterator[str]:
    """Yield the #SBATCH lines, with comments."""
    for option, value in resources(config, job):
        if value is not None:
            yield f"#SBATCH --{option}={shlex.quote(str(value))}"
    yield from (f"#SBATCH {shlex.quote(option)}" for option in config.options)
    yield "# A requeued job has the same number, %j, and appends to the same files."
    yield f"#SBATCH --output={LOGS}/train_%j.out"
    yield f"#SBATCH --error={LOGS}/train_%j.err"
    yield "#SBATCH --open-mode=append"
    if config.signal_s:
        yield "# This many seconds before the time limit, SLURM asks the run to save and exit."
        yield f"#SBATCH --signal=USR1@{config.signal_s}"
    yield "#SBATCH --requeue" if config.requeue else "#SBATCH --no-requeue"


def resources(config: SlurmConfig, job: Job) -> list[tuple[str, object]]:
    """The resources of the job; None where the cluster's default applies."""
    return [
        ("job-name", config.job_name or job.name),
        ("partition", config.partition),
        ("account", config.account),
        ("qos", config.qos),
        ("nodes", config.nodes),
        ("ntasks-per-node", config.num_processes),
        ("gpus-per-node", config.gpus_per_node or None),
        ("cpus-per-task", config.cpus_per_task),
        ("mem", config.mem),
        ("time", config.time),
        ("chdir", job.folder),
    ]
