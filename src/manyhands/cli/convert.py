"""`manyhands convert`: copy, import and repair datasets, gather shards, merge adapters."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from manyhands import units
from manyhands.cli.flags import read_config, write_results
from manyhands.config.commands.convert import ConvertConfig
from manyhands.observe.console import progress_bar

if TYPE_CHECKING:
    from manyhands.data.writing.copy_episodes import CopySummary
    from manyhands.data.writing.copy_sources import EpisodeChoice

USAGE = """manyhands convert --dataset.root=OLD --output=NEW
manyhands convert --dataset.root=OLD --output=NEW --exclude_episodes=[3,7]
manyhands convert --dataset.root=OLD --output=NEW --dataset.on_bad=skip
manyhands convert --merge=[A,B,C] --output=NEW
manyhands convert --from=FILE_OR_FOLDER --output=NEW
manyhands convert --repair --dataset.root=DAMAGED --output=NEW
manyhands convert --checkpoint=RUN_OR_CHECKPOINT
manyhands convert --checkpoint=RUN_OR_CHECKPOINT --output=NEW

Converts, merges or removes episodes: copies datasets in LeRobot's format v2.0, v2.1 or v3.0 into a
new v3.0 dataset. Videos are copied without re-encoding; the source datasets are not changed.
With --from, imports HDF5 files of robomimic or ALOHA, zarr replay buffers of Diffusion Policy, RLDS
and CSV tables with images. It prints which columns become which features; --propose=FILE writes
them to a file that --mapping=FILE reads. An interrupted import continues with the same command.
With --repair, rebuilds index columns, counts and statistics, and drops episodes it cannot repair.
With --checkpoint, the policies that a sharded run saved with --checkpoint_format=dcp get their full
weights as model.safetensors, which makes them loadable. With --output too, a policy with adapters
is written with the adapters merged into its weights."""


def convert_command(arguments: Sequence[str]) -> int:
    """Convert as the arguments specify; return the exit code."""
    config = read_config(ConvertConfig, USAGE, arguments)
    if config.checkpoint is not None:
        return gather_weights(config.checkpoint, config.target, config.json)
    if config.from_ is not None:
        from manyhands.cli.convert_import import import_command

        return import_command(config)
    assert config.target is not None
    if config.repair:
        from manyhands.cli.convert_repair import repair_command

        return repair_command(config)
    from manyhands.data.writing.copy_episodes import copy_episodes

    choices = _choices(config)
    with progress_bar("copying episodes") as on_progress:
        summary = copy_episodes(choices, config.target, on_progress, config.allow_mixed_robots)
    print(summary_lines(summary, config.target))
    write_results(config.json, vars(summary))
    return 0


def gather_weights(checkpoint: Path, output: Path | None, summary: Path | None) -> int:
    """Gather full weights from shards, or merge adapters into `output`; return the exit code."""
    from manyhands.checkpoint.convert import gather_checkpoint, merge_adapters

    if output is None:
        files = gather_checkpoint(checkpoint)
    else:
        files = [merge_adapters(checkpoint, output)]
    for file in files:
        print(f"{file}: {units.num_bytes(file.stat().st_size)}")
    write_results(summary, {"files": [str(file) for file in files]})
    return 0


def summary_lines(summary: "CopySummary", output: Path) -> str:
    """Format a summary: one line, plus one per warning."""
    size, wall = units.num_bytes(summary.num_bytes), units.duration(summary.wall_s)
    origin = f" of {summary.num_datasets} datasets" if summary.num_datasets > 1 else ""
    lines = [
        f"{output}: {summary.num_episodes} episodes{origin}, {summary.num_frames} frames, "
        f"{summary.num_tasks} tasks, {size} in {wall}"
    ]
    if summary.num_clips:
        num_copied = summary.num_clips - summary.num_encoded_clips
        lines[0] += f"; {num_copied} of {summary.num_clips} video clips copied without re-encoding"
    if summary.num_encoded_clips:
        lines.append(
            f"{summary.num_encoded_clips} video clips did not start with a keyframe and were "
            "re-encoded"
        )
    if summary.dropped_columns:
        lines.append(
            f"skipped columns that no feature declares: {', '.join(summary.dropped_columns)}"
        )
    return "\n".join([*lines, *summary.skipped])


def _choices(config: ConvertConfig) -> list["EpisodeChoice"]:
    from manyhands.data.location import locate_dataset
    from manyhands.data.writing.copy_sources import EpisodeChoice

    if config.merge is None:
        dataset = config.dataset
        root = locate_dataset(dataset.repo_id, dataset.root, dataset.revision)
        excluded = config.exclude_episodes or ()
        return [EpisodeChoice(root, config.episodes, excluded, dataset.on_bad)]
    roots = [Path(name) if Path(name).is_dir() else None for name in config.merge]
    return [
        EpisodeChoice(locate_dataset(name, root))
        for name, root in zip(config.merge, roots, strict=True)
    ]
