"""Check the metadata of a dataset without reading a frame."""

from collections.abc import Iterator

from manyhands.data.checking import finding as checks
from manyhands.data.checking.finding import Finding
from manyhands.data.selection import Source
from manyhands.lerobot_format import names

_NEEDED = (names.INDEX, names.TASK_INDEX)


def check_metadata(source: Source) -> Iterator[Finding]:
    """Faults of the metadata, which could be read."""
    yield from _reserved_features(source)
    yield from _empty_episodes(source)
    yield from _texts(source)


def _reserved_features(source: Source) -> Iterator[Finding]:
    for key in names.RESERVED_FEATURES:
        if key not in source.meta.info.features:
            severity: checks.Severity = "bad" if key in _NEEDED else "warning"
            message = f"feature {key} is not declared"
            yield Finding(checks.METADATA, severity, message, None, names.INFO_FILE)


def _empty_episodes(source: Source) -> Iterator[Finding]:
    episodes = source.meta.episodes
    for episode in source.selection.episodes.tolist():
        if not episodes.lengths[episode]:
            frames = (int(episodes.from_index[episode]), int(episodes.to_index[episode]))
            message = "the episode has no frames"
            file = episodes.data_files.paths[episodes.data_files.of_episode[episode]]
            yield Finding(checks.EPISODES, "warning", message, episode, file, None, frames)


def _texts(source: Source) -> Iterator[Finding]:
    is_old = source.meta.info.major_version == 2
    file = names.TASK_LINES_FILE if is_old else names.TASKS_FILE
    numbers: dict[str, int] = {}
    for number, text in enumerate(source.meta.tasks):
        earlier = numbers.setdefault(text, number)
        fault = "is empty" if not text.strip() else f"duplicates task {earlier}"
        if earlier != number or not text.strip():
            message = f"task {number} {fault}"
            yield Finding(checks.TASKS, "warning", message, None, file)
