"""`manyhands convert --from`: import a dataset of another format."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from manyhands import units
from manyhands.atomic import atomic_file
from manyhands.cli.flags import write_results
from manyhands.config.commands.convert import ConvertConfig
from manyhands.errors import ConfigError
from manyhands.observe.console import progress_bar

if TYPE_CHECKING:
    from manyhands.data.importing.import_dataset import ImportSummary
    from manyhands.data.importing.mapping import FeatureMapping
    from manyhands.data.importing.source import ImportSource


def import_command(config: ConvertConfig) -> int:
    """Import, or write the proposed mapping; return the exit code."""
    from manyhands.data.importing.formats import open_import_source
    from manyhands.data.importing.import_dataset import chosen_episodes, import_dataset
    from manyhands.data.importing.proposal import check_complete, chosen_mapping

    assert config.from_ is not None
    source = open_import_source(config.from_, config.format)
    mapping = chosen_mapping(source, mapping_entries(config))
    print("\n".join(mapping_lines(source, mapping)), flush=True)
    if config.propose is not None:
        write_mapping(config.propose, mapping)
        return 0
    assert config.target is not None
    check_complete(mapping, source)
    episodes = chosen_episodes(source, config.episodes, config.exclude_episodes or ())
    with _continuable(), progress_bar("importing episodes") as on_progress:
        summary = import_dataset(source, mapping, config.target, episodes, on_progress)
    print(summary_line(summary, config.target))
    write_results(config.json, vars(summary))
    return 0


@contextmanager
def _continuable() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            "interrupted. The same command continues after the last complete episode"
        ) from None


def mapping_entries(config: ConvertConfig) -> dict[str, Any]:
    """The entries of the mapping that a file or flags give; flags override the file."""
    from manyhands.data.importing.mapping import FeatureMapping, read_mapping_file

    entries = {} if config.mapping is None else read_mapping_file(config.mapping)
    own = {item.name: getattr(config, item.name) for item in fields(FeatureMapping)}
    given = {name: value for name, value in own.items() if value is not None}
    for one, other in (("task", "task_column"), ("task_column", "task")):
        if one in given:
            entries.pop(other, None)
    return entries | given


def mapping_lines(source: "ImportSource", mapping: "FeatureMapping") -> Iterator[str]:
    """Yield what the source holds, and what becomes of it."""
    yield f"{source.path}: format {source.format}, {source.num_episodes} episodes"
    width = max(map(len, mapping.features))
    declared = mapping.declared(source.columns)
    for key, parts in mapping.features.items():
        sizes = "x".join(map(str, declared[key]["shape"]))
        columns = " + ".join(map(str, parts))
        yield f"  {key:{width}} <- {columns}  ({declared[key]['dtype']} {sizes})"
    yield f"  {'fps':{width}} =  {mapping.fps or 'unknown; set --fps=N'}"
    task = f"<- {mapping.task_column}" if mapping.task_column else f"=  {mapping.task!r}"
    yield f"  {'task':{width}} {task}" if task != "=  None" else f"  {'task':{width}} =  unknown"
    unused = [name for name in source.columns if name not in mapping.columns]
    if unused:
        yield f"  not imported: {', '.join(unused)}"
    yield from (f"  note: {note}" for note in source.notes)


def write_mapping(file: Path, mapping: "FeatureMapping") -> None:
    """Write a mapping to edit; an existing file may have been edited already."""
    if file.exists():
        raise ConfigError(f"--propose={file} already exists. Choose a new file")
    with atomic_file(file) as scratch:
        text = yaml.safe_dump(mapping.document(), sort_keys=False, allow_unicode=True, width=1000)
        scratch.write_text(text, encoding="utf-8")
    print(f"{file}: edit it, then import with --mapping={file}")


def summary_line(summary: "ImportSummary", output: Path) -> str:
    """Format a summary in one line."""
    size, wall = units.num_bytes(summary.num_bytes), units.duration(summary.wall_s)
    line = (
        f"{output}: {summary.num_episodes} episodes, {summary.num_frames} frames, {size} in {wall}"
    )
    if summary.num_resumed_episodes:
        line += f"; continued after {summary.num_resumed_episodes} episodes"
    return line
