"""The quality of episodes as a table, and the flag that excludes the bad ones."""

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from manyhands import units
from manyhands.config.commands.doctor import DoctorConfig
from manyhands.data.checking.finding import CheckResult, counted
from manyhands.data.episodes import Source, select_episodes
from manyhands.data.location import shared_home
from manyhands.data.quality.dataset_quality import (
    DatasetQuality,
    Progress,
    QualityOptions,
    judge_quality,
)
from manyhands.data.quality.episode_quality import EpisodeQuality
from manyhands.doctor.dataset import checked_folder
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.meta import read_dataset_meta

MAX_SHOWN = 40  # Episodes in the table; the JSON file has all.


def examine_quality(
    config: DoctorConfig, result: CheckResult, on_progress: Progress | None = None
) -> DatasetQuality | DatasetError:
    """Judge the episodes that a check found readable; an error if there is none."""
    options = QualityOptions(
        num_workers=config.num_workers,
        on_progress=on_progress,
        home=config.cache.folder or shared_home(),
    )
    try:
        root = checked_folder(config.dataset)
        meta = read_dataset_meta(root)
        chosen = config.dataset.episodes
        bad = set(result.bad_episodes)
        everything = range(len(meta.episodes)) if chosen is None else chosen
        readable = [each for each in everything if each not in bad]
        return judge_quality(Source(root, meta, select_episodes(meta.episodes, readable)), options)
    except DatasetError as error:
        return error


def quality_table(quality: DatasetQuality) -> Table:
    """A row per episode with findings, those worth excluding first."""
    table = Table(title="Quality of episodes", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("episode", justify="right", no_wrap=True)
    table.add_column("duration", justify="right", no_wrap=True)
    table.add_column("advice", no_wrap=True)
    table.add_column("found", overflow="fold")
    found = sorted(
        (each for each in quality.episodes if each.findings),
        key=lambda each: not each.is_worth_excluding,
    )
    for each in found[:MAX_SHOWN]:
        table.add_row(
            str(each.episode), f"{each.duration_s:.1f} s", _advice(each), escape(_findings(each))
        )
    if len(found) > MAX_SHOWN:
        table.add_row("", "", "", f"and {counted(len(found) - MAX_SHOWN, 'episode')} more")
    return table


def quality_lines(quality: DatasetQuality) -> list[str]:
    """How many episodes were judged, and the flag that excludes those that are worth it."""
    num_found = sum(bool(each.findings) for each in quality.episodes)
    judged = counted(len(quality.episodes), "episode")
    lines = [
        f"quality: judged {judged} in {units.duration(quality.wall_s)}, "
        f"{num_found or 'none'} with findings"
    ]
    if quality.exclude_flag:
        count = counted(len(quality.exclude_episodes), "episode")
        lines.append(f"exclude {count} when training: {quality.exclude_flag}")
    return lines


def _advice(episode: EpisodeQuality) -> str:
    return "[yellow]exclude[/]" if episode.is_worth_excluding else "[dim]look at it[/]"


def _findings(episode: EpisodeQuality) -> str:
    return "\n".join(f"{finding.fault}: {finding.message}" for finding in episode.findings)
