"""Commands that a user can paste, also where the environment is not activated."""

import shlex
import shutil
import sys
from pathlib import Path


def program(name: str = "manyhands") -> str:
    """How a shell starts a command of this environment: by name, or by file if off the path."""
    own, found = Path(sys.executable).with_name(name), shutil.which(name)
    if not own.exists() or (found is not None and Path(found).absolute() == own.absolute()):
        return name
    here = Path.cwd()
    near = own.is_relative_to(here)
    return shlex.quote(str(own.relative_to(here) if near else own))


def resume_command(run_dir: Path) -> str:
    """The command that continues a run."""
    return f"{program()} train --resume={shlex.quote(str(run_dir))}"
