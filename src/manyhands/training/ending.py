"""How a run ended, and its exit code."""

from enum import Enum

from manyhands.errors import Diverged, UserError


class Ending(Enum):
    """Why training returned."""

    FINISHED = "finished"
    STOPPED = "stopped"

    @property
    def exit_code(self) -> int:
        """The exit code of the process."""
        return EXIT_CODES[self]


EXIT_CODES = {Ending.FINISHED: 0, Ending.STOPPED: 75}


def ending_of(exit_code: int) -> Ending:
    """The ending that worker processes reported; raises if they failed, after logging why."""
    for ending, code in EXIT_CODES.items():
        if code == exit_code:
            return ending
    if exit_code == Diverged.exit_code:
        raise Diverged("training diverged")
    raise UserError(f"training failed with exit code {exit_code}; see its output above")
