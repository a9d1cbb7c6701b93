"""SLURM job settings; the training flags are separate."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from manyhands.config.launch.jobs import JobConfig, script_faults
from manyhands.config.schema.rules import at_least

TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
MEMORY = re.compile(r"\d+[KMGT]?", re.IGNORECASE)
MAX_SIGNAL_S = 65_535  # The largest number that sbatch takes.
BREAKS_A_LINE = "would break a line of the script; use printable characters only"


@dataclass(frozen=True, kw_only=True)
class SlurmConfig(JobConfig):
    """A SLURM job."""

    partition: str | None = None
    """Partition; null: the cluster's default, as for account, qos, time and mem."""
    account: str | None = None
    """Account to charge."""
    qos: str | None = None
    """Quality of service."""
    time: str | None = None
    """Time limit of one job, as 24:00:00 or 2-12:00:00; a requeued run continues beyond it."""
    cpus_per_task: int | None = None
    """CPU cores per process, its loader processes included."""
    mem: str | None = None
    """Memory per node, as 64G."""
    options: list[str] = field(default_factory=list)
    """More sbatch options, as [--exclusive,--constraint=h100]."""
    setup: list[str] = field(default_factory=list)
    """Shell lines at the start of the job, as [module load cuda]."""
    signal_s: int = 120
    """Seconds before the time limit at which the run saves and exits; 0: never."""
    requeue: bool = True
    """Requeue a job that must leave; false: submit it again yourself."""
    script: Path = Path("train.sbatch")
    """Script file to write."""
    submit: bool = False
    """Submit the script with sbatch."""

    def faults(self) -> list[str]:
        """Return every invalid value."""
        return [
            *self.count_faults(),
            *at_least(self, "", 1, "cpus_per_task"),
            *self._time_faults(),
            *self._text_faults(),
            *script_faults(self.script),
        ]

    def _time_faults(self) -> Iterator[str]:
        limit_s = None if self.time is None else seconds_of(self.time)
        if self.time is not None and limit_s is None:
            yield f"--time={self.time} is not a time limit. Write it as 24:00:00 or 2-12:00:00"
        if not 0 <= self.signal_s <= MAX_SIGNAL_S:
            yield f"--signal_s={self.signal_s} must be at least 0 and at most {MAX_SIGNAL_S}"
        elif limit_s and self.signal_s >= limit_s:
            yield f"--signal_s={self.signal_s} must be shorter than --time={self.time}"

    def _text_faults(self) -> Iterator[str]:
        if self.mem is not None and not MEMORY.fullmatch(self.mem):
            yield f"--mem={self.mem} is not a memory size. Write it as 64G"
        yield from self.variable_faults()
        for option in self.options:
            if not option.startswith("-"):
                yield f"--options: {option} is not an sbatch option. Write --name=value"
        for flag, text in self._texts():
            if not text.isprintable():
                yield f"{flag}={text!r} {BREAKS_A_LINE}"

    def _texts(self) -> Iterator[tuple[str, str]]:
        for name in ("partition", "account", "qos", "job_name"):
            yield f"--{name}", getattr(self, name) or ""
        yield from ((f"--env.{name}", value) for name, value in self.env.items())
        yield from (("--options", option) for option in self.options)
        yield from (("--setup", line) for line in self.setup)
        yield "--script", str(self.script)


def seconds_of(limit: str) -> int | None:
    """Parse a SLURM time limit to seconds; None if invalid."""
    found = TIME.fullmatch(limit)
    if found is None:
        return None
    days, *given = found.groups()
    numbers = [int(number) for number in given if number is not None]
    if days is not None:
        # After days, fields are hours, minutes, seconds.
        numbers += [0] * (3 - len(numbers))
    elif len(numbers) == 1:
        numbers = [0, numbers[0], 0]
    hours, minutes, seconds = [0] * (3 - len(numbers)) + numbers
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
