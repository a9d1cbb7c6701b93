"""`manyhands doctor`: check a dataset, a run or this machine."""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from manyhands.cli.dataset_folder import is_dataset
from manyhands.cli.flags import read_config, split_names, write_results
from manyhands.config.commands.doctor import DoctorConfig, ExaminationConfig
from manyhands.config.schema.command_line import read_flags
from manyhands.config.schema.decoding import flags_of
from manyhands.errors import ConfigError, DatasetError, UserError
from manyhands.observe.console import progress_bar
from manyhands.observe.run_status import RUN_FILE
from manyhands.observe.wrapping import print_wrapped

if TYPE_CHECKING:
    from manyhands.data.checking.finding import CheckResult

USAGE = """manyhands doctor [--json=FILE]
manyhands doctor RUN_DIR [--json=FILE]
manyhands doctor DATASET_DIR [--dataset.episodes=[0,1]] [--quick] [--all] [--quality] [--json=FILE]

Alone: checks this machine: driver, GPUs and links, memory, limits, disk, clock, versions.
With a run directory: says why the run is slow or does not learn, and which flag helps.
With a dataset, also as --dataset.root=DIR or --dataset.repo_id=NAME: reads it as training would,
decodes every image, and reports every problem with its episode and file; --quality also judges
every episode and proposes which to exclude. Exit code 0: usable; 2: something is bad, whatever the
quality."""

SWITCHES = [f"--{flag.name}" for flag in flags_of(DoctorConfig) if flag.type is bool]
WIDTH = 160


def doctor_command(arguments: Sequence[str]) -> int:
    """Check a dataset, a run or this machine; return the exit code."""
    started = time.perf_counter()
    run_dir, config = read_arguments(arguments)
    if run_dir is not None:
        return check_run(run_dir, config)
    if isinstance(config, DoctorConfig):
        return check_dataset(config, started)
    return check_machine(config)


def read_arguments(arguments: Sequence[str]) -> tuple[Path | None, ExaminationConfig]:
    """The run directory, if one is given, and the flags: those of a dataset, or the common ones."""
    names, flags = split_names(arguments, SWITCHES)
    if len(names) > 1:
        raise ConfigError(f"give one folder, not {len(names)}: {', '.join(names)}")
    for folder in map(Path, names):
        # A damaged dataset may lack the file that marks one: then flags decide.
        is_run = (folder / RUN_FILE).is_file() or not concern_dataset(flags)
        if is_run and not is_dataset(folder):
            return folder, read_config(ExaminationConfig, USAGE, flags)
        flags = with_root(folder, flags)
    kind = DoctorConfig if concern_dataset(flags) else ExaminationConfig
    return None, read_config(kind, USAGE, flags)


def concern_dataset(flags: Sequence[str]) -> bool:
    """Whether some flags are about a dataset."""
    command_line = read_flags(flags)
    return bool(command_line.switches) or not set(command_line.tree) <= {"json"}


def with_root(folder: Path, flags: Sequence[str]) -> list[str]:
    """Flags that select the dataset in a folder."""
    section = read_flags(flags).tree.get("dataset")
    if isinstance(section, dict) and "root" in section:
        other = f"--dataset.root={section['root']}"
        raise ConfigError(f"{other} has no effect: {folder} is checked. Remove it")
    return [*flags, f"--dataset.root={folder}"]


def open_console() -> Console:
    """The console; in a file or pipe, messages are not wrapped."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)


def check_dataset(config: DoctorConfig, started: float) -> int:
    """Validate a dataset; times are those since the command began, as its user waits."""
    from manyhands.data.checking.verdict import verdict_line
    from manyhands.doctor.dataset import (
        as_json,
        examine,
        findings_table,
        look_first,
        way_out,
    )

    console = open_console()
    look = None if config.quick else look_first(config)
    if look is not None:
        print_wrapped(replace(look, wall_s=time.perf_counter() - started).text, sys.stdout)
    with progress_bar("checking frames") as on_progress:
        result = examine(config, on_progress)
    result = replace(result, wall_s=time.perf_counter() - started)
    console.print(findings_table(result, config.all))
    for line in (verdict_line(result), *way_out(result, config.all)):
        print_wrapped(line, sys.stdout)
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
        print_wrapped(f"quality: not judged: {quality}", sys.stdout)
        return {"error": str(quality)}
    if any(each.findings for each in quality.episodes):
        console.print(quality_table(quality))
    for line in quality_lines(quality):
        print_wrapped(line, sys.stdout)
    return quality.document()


def check_run(run_dir: Path, config: ExaminationConfig) -> int:
    """Diagnose a run."""
    from manyhands.doctor.check import checks_table
    from manyhands.doctor.run import examine_run, phases_table
    from manyhands.report.runs import run_files

    run_files.check_run(run_dir)
    found = examine_run(run_dir)
    console = open_console()
    console.print(checks_table(str(run_dir), found.checks, console.width))
    if found.step_s is not None:
        console.print(phases_table(found))
    for line in found.verdict.lines:
        print_wrapped(line, sys.stdout)
    write_results(config.json, found.as_json())
    return 0


def check_machine(config: ExaminationConfig) -> int:
    """Check this machine."""
    from manyhands.doctor.check import checks_json, checks_table, is_usable, summary_line
    from manyhands.doctor.machine import check_machine

    checks = check_machine(Path.cwd())
    console = open_console()
    console.print(checks_table("this machine", checks, console.width))
    print_wrapped(summary_line(checks), sys.stdout)
    write_results(config.json, checks_json(checks))
    return 0 if is_usable(checks) else UserError.exit_code
