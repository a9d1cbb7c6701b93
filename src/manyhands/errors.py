"""Expected failures of a run, with their exit codes."""

import re
from collections.abc import Iterator
from contextlib import contextmanager


class UserError(Exception):
    """A usage error: the fault, the value seen, the flag or file to change."""

    exit_code = 2
    rank: int | None = None
    """The rank that reports for all; None if all ranks may have the same error."""
    is_common = False
    """Whether every rank has it: then it names no rank."""
    is_reported = False
    """Whether the user has seen it."""


class ConfigError(UserError):
    """All faults of a configuration, reported together."""

    is_common = True

    def __init__(self, faults: list[str] | str) -> None:
        self.faults = [faults] if isinstance(faults, str) else faults
        super().__init__("\n".join(self.faults))

    def __reduce__(self) -> tuple[type["ConfigError"], tuple[list[str]]]:
        return ConfigError, (self.faults,)


class DatasetError(UserError):
    """A dataset that is missing, damaged or inconsistent with its metadata."""


@contextmanager
def naming_arguments() -> Iterator[None]:
    """Name arguments of Python instead of the flags of a dataset."""
    try:
        yield
    except DatasetError as error:
        if type(error) is not DatasetError:
            raise
        raise DatasetError(re.sub(r"--dataset\.(\w+)", r"\1", str(error))) from None


class CheckpointError(UserError):
    """A checkpoint that is missing, damaged or made for something else."""

    is_common = True


class WeightsUnavailable(UserError):
    """Published weights that are neither cached nor downloadable."""


class EnvironmentFault(UserError):
    """The machine or the launcher's variables do not allow the configuration."""


class RankLost(Exception):
    """Another rank ended the run, and reports the reason."""

    exit_code = 76


class Diverged(Exception):
    """Training produced NaN or Inf."""

    exit_code = 3
    rank: int | None = None
    """The rank that reports for all."""
    is_common = False
    """Whether every rank has it: then it names no rank."""
    is_reported = False
    """Whether the user has seen it."""


class HelpShown(Exception):
    """The command only printed an answer, such as help."""

    exit_code = 0


class Stopped(BaseException):
    """A stop request with nothing to save; a BaseException, so that no library handles it."""

    exit_code = 75

    def __init__(self) -> None:
        super().__init__("stopped on request; nothing to save")
