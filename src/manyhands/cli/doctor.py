"""`manyhands doctor`: validate a dataset before training."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from manyhands.cli.flags import read_config, write_results
from manyhands.config.commands import DoctorConfig
from manyhands.errors import DatasetError, UserError
from manyhands.observe.console import progress_bar

if TYPE_CHECKING:
    from manyhands.data.checking.finding import CheckResult

USAGE = """manyhands doctor --dataset.root=DIR [--dataset.episodes=[0,1]] [--quick] [--quality]
                 [--json=FILE]

Reads a LeRobot dataset as training would, decodes every image, and reports every problem with
its episode and file. Exit code 0: the dataset is usable; 2: something is bad.
--quality also judges every episode and proposes which to exclude; the exit code stays the same."""

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
    document = as_json(result)
    if config.quality:
        document["quality"] = _judge(config, result, console)
    write_results(config.json, document)
    return 0 if result.is_usable else UserError.exit_code


def _judge(config: DoctorConfig, result: "CheckResult", console: Console) -> dict[str, Any]:
    """Print the quality of episodes; return it for the JSON file."""
    from manyhands.doctor.quality import examine_quality, quality_lines, quality_table

    with progress_bar("sampling frames") as on_progress:
        quality = examine_quality(config, result, on_progress)
    if isinstance(quality, DatasetError):
        console.print(f"quality: not judged: {quality}", markup=False, soft_wrap=True)
        return {"error": str(quality)}
    if any(each.findings for each in quality.episodes):
        console.print(quality_table(quality))
    for line in quality_lines(quality):
        console.print(line, markup=False, soft_wrap=True)
    return quality.document()
