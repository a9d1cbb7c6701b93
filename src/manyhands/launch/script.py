"""This program as a command, so that it can be started once per rank."""

import sys

from manyhands.errors import EnvironmentFault


def script_command() -> list[str]:
    """The command line that started this program."""
    is_file = hasattr(sys.modules["__main__"], "__file__")
    if not is_file and "-c" not in sys.orig_argv:
        raise EnvironmentFault(
            "several processes need a program in a file, not an interactive session. Save it and "
            "run it with python, or set --launch.num_processes=1"
        )
    return [sys.executable, *sys.orig_argv[1:]]
