"""Whether a folder that a command is given is a dataset or a run."""

from pathlib import Path

from manyhands.errors import UserError
from manyhands.lerobot_format.names import INFO_FILE
from manyhands.observe.run_status import RUN_FILE


def is_dataset(folder: Path) -> bool:
    """Whether a folder is a dataset; a usage error if it is a run as well."""
    if not (folder / INFO_FILE).is_file():
        return False
    if (folder / RUN_FILE).is_file():
        raise UserError(
            f"{folder} has {RUN_FILE} of a run and {INFO_FILE} of a dataset. Move one of them"
        )
    return True
