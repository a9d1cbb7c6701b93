"""The numbers that sum up a run, alone or beside others in one table."""

from collections.abc import Sequence

from manyhands.report.facts import Tile, key_numbers, run_title
from manyhands.report.runs.evaluations import success_tile
from manyhands.report.runs.run_files import RunFiles
from manyhands.report.tables import Column, Table, TableRow


def summary_tiles(run: RunFiles) -> list[Tile]:
    """The key numbers; success of the latest evaluation comes first where training logged none."""
    tiles = key_numbers(run.run, run.metrics)
    if run.evaluations and not any(tile.label == "success" for tile in tiles):
        return [success_tile(run.evaluations[0]), *tiles]
    return tiles


def summary_table(runs: Sequence[RunFiles]) -> Table:
    """One row per run with the numbers that sum it up."""
    numbers = [{tile.label: tile.value for tile in summary_tiles(run)} for run in runs]
    labels = [*dict.fromkeys(label for each in numbers for label in each)]
    columns = [Column("run"), Column("policy and dataset"), Column("ending")]
    columns += [Column(label, is_number=True) for label in labels]
    rows = [
        TableRow(
            [
                run.label,
                run_title(run.run, ""),
                run.ending,
                *(own.get(label, "") for label in labels),
            ]
        )
        for run, own in zip(runs, numbers, strict=True)
    ]
    return Table(columns=columns, rows=rows)
