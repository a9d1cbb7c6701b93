"""Every way a run can end badly through no bug of ours, with the exit code the shell sees."""


class UserError(Exception):
    """A mistake the user can mend: the fault, the value seen, the flag or file to change."""

    exit_code = 2
    rank: int | None = None
    """The rank that speaks for all; None where all may have met the same mistake."""
    is_reported = False
    """Whether the user has seen it."""


class ConfigError(UserError):
    """Faults of a configuration, gathered so that one run of the command shows them all."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults

    def __reduce__(self) -> tuple[type["ConfigError"], tuple[list[str]]]:
        return ConfigError, (self.faults,)


class DatasetError(UserError):
    """A dataset that is missing, damaged or unlike what its metadata says."""


class CheckpointError(UserError):
    """A checkpoint that is missing, damaged or made for something else."""


class WeightsUnavailable(UserError):
    """Published weights that are neither cached nor to be fetched."""


class EnvironmentFault(UserError):
    """The machine or the launcher's variables do not allow what was asked."""


class RankLost(Exception):
    """Another rank ended the run; whatever it was, it is told there."""

    exit_code = 76


class Diverged(Exception):
    """Training produced a number that is not finite."""

    exit_code = 3
    rank: int | None = None
    """The rank that speaks for all."""
    is_reported = False
    """Whether the user has seen it."""


class Answered(Exception):
    """The user asked a question instead of for work, and has the answer."""

    exit_code = 0


class Stopped(BaseException):
    """Somebody asked to stop where there is nothing to save; no library may take it for a fault."""

    exit_code = 75

    def __init__(self) -> None:
        super().__init__("stopped on request; nothing to save")
