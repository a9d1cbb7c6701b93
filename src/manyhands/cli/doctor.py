"""`manyhands doctor`: validate a dataset before training."""

import sys
from collections.abc import Sequence

from rich.console import Console

from manyhands.cli.flags import read_config, write_results
from manyhands.config.commands import DoctorConfig
from manyhands.errors import UserError
from manyhands.observe.console import progress_bar

USAGE = """manyhands doctor --dataset.root=DIR [--dataset.episodes=[0,1]] [--quick] [--json=FILE]

Reads a LeRobot dataset as training would, decodes every image, and reports every problem with
its episode and file. Exit code 0: the dataset is usable; 2: something is bad."""

WIDTH = 160


def doctor_command(arguments: Sequence[str]) -> int:
    """Validate a dataset; return the exit code."""
    config = read_config(DoctorConfig, USAGE, arguments)
    from manyhands.doctor.dataset import as_json, examine, findings_table, verdict_line

    with progress_bar("checking frames") as on_progress:
        result = examine(config, on_progress)
    # In a file or pipe, do not wrap messages.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    console.print(findings_table(result))
    console.print(verdict_line(result), markup=False, soft_wrap=True)
    write_results(config.json, as_json(result))
    return 0 if result.is_usable else UserError.exit_code
