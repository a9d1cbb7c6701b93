"""`manyhands convert --repair`: write a clean copy of a damaged dataset."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from manyhands import units
from manyhands.cli.flags import write_results
from manyhands.config.commands.convert import ConvertConfig
from manyhands.observe.console import progress_bar

if TYPE_CHECKING:
    from manyhands.data.repairing.report import Repair, RepairReport

_SHOWN_EPISODES = 8


def repair_command(config: ConvertConfig) -> int:
    """Repair a dataset; return the exit code."""
    from manyhands.data.location import locate_dataset
    from manyhands.data.repairing.repair_dataset import repair_dataset

    dataset = config.dataset
    root = dataset.root
    if root is None or not root.is_dir():
        root = locate_dataset(dataset.repo_id, dataset.root, dataset.revision)
    assert config.target is not None
    with progress_bar("repairing episodes") as on_progress:
        report = repair_dataset(root, config.target, on_progress)
    if report.repairs:
        Console(highlight=False).print(repairs_table(str(root), report.repairs))
    print(summary_line(report, config.target))
    write_results(config.json, report.document())
    return 0


def repairs_table(title: str, repairs: Sequence["Repair"]) -> Table:
    """A row per repair."""
    table = Table(title=escape(title), title_justify="left", box=SIMPLE_HEAD)
    for name in ("where", "fault", "repair", "episodes"):
        table.add_column(name, overflow="fold")
    for each in repairs:
        shown = ", ".join(map(str, each.episodes[:_SHOWN_EPISODES]))
        num_more = len(each.episodes) - _SHOWN_EPISODES
        shown += f" and {num_more} more" if num_more > 0 else ""
        table.add_row(*map(escape, (each.where, each.fault, each.repair, shown or "all")))
    return table


def summary_line(report: "RepairReport", target: Path) -> str:
    """Format a report in one line."""
    num_dropped = len(report.dropped_episodes)
    amount = f"{report.num_episodes} episodes, {report.num_frames} frames"
    return (
        f"{target}: {amount}, {num_dropped} episodes dropped, {len(report.repairs)} faults in "
        f"{units.duration(report.wall_s)}"
    )
