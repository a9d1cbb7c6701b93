"""Cached results, so that a dataset is checked once as long as it does not change."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

from manyhands.atomic import atomic_file
from manyhands.data.checking.check import CheckOptions, check_dataset
from manyhands.data.checking.finding import (
    CHECKS,
    Check,
    CheckResult,
    Finding,
    Thoroughness,
    error_message,
    parse_result,
)
from manyhands.data.checking.scope import Scope
from manyhands.data.episodes import Source, select_episodes
from manyhands.data.locks import read_stamp
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.meta import read_dataset_meta

CHECKS_FOLDER = "checks"
_FORMAT = 2


def check_once(source: Source, home: Path, checking: CheckOptions | None = None) -> CheckResult:
    """The cached result of a check that covers this one, else that of a new check."""
    checking = checking or CheckOptions()
    started = time.perf_counter()
    state = dataset_state(source)
    for name in _names(source, checking, state):
        kept = _read(home / CHECKS_FOLDER / name)
        if kept is not None:
            return _reused(kept, source, checking, time.perf_counter() - started)
    result = check_dataset(source, checking)
    # What changed meanwhile belongs neither to the old nor to the new state.
    if result.is_lasting and state == dataset_state(source):
        own = _name(state, checking.thoroughness, source.selection.episodes.tolist(), result.keys)
        path = home / CHECKS_FOLDER / own
        # If it cannot be cached, the next check takes as long as this one.
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(path) as scratch:
                scratch.write_text(json.dumps(result.document()), encoding="utf-8")
    return result


def _reused(
    kept: CheckResult, source: Source, checking: CheckOptions, wall_s: float
) -> CheckResult:
    """The part of a result that a check asks for."""
    narrow = kept.narrowed(source.selection, checking.keys_of(source))
    scope = Scope(source, narrow.keys, narrow.coverage)
    texts = scope.texts(narrow.findings, kept.thoroughness == "full")
    found = replace(narrow, looked_at=texts, incomplete=scope.incomplete())
    return replace(found, cached=True, wall_s=wall_s)


def dataset_state(source: Source) -> str:
    """A hash that changes with any file of the dataset."""
    digest = blake2b(digest_size=16)
    digest.update(f"{source.root.resolve()}\n".encode())
    table = source.meta.episodes
    paths = sorted((source.root / "meta").rglob("*"))
    for files in (table.data_files, *table.video_files.values()):
        paths += [source.root / path for path in files.paths]
    for path in paths:
        try:
            stamp = read_stamp(path)
        except DatasetError as error:
            stamp = str(error)
        digest.update(f"{path}\n{stamp}\n".encode())
    return digest.hexdigest()


def _names(source: Source, checking: CheckOptions, state: str) -> Iterator[str]:
    """Cache files of results that cover this check, the widest first."""
    thoroughnesses: tuple[Thoroughness, ...] = ("full", "quick")
    all_episodes, all_keys = range(len(source.meta.episodes)), tuple(source.meta.info.features)
    for thoroughness in thoroughnesses:
        for episodes in (list(all_episodes), source.selection.episodes.tolist()):
            for keys in (all_keys, checking.keys_of(source)):
                yield _name(state, thoroughness, episodes, keys)
        if thoroughness == checking.thoroughness:
            return


def _name(
    state: str, thoroughness: Thoroughness, episodes: list[int], keys: tuple[str, ...]
) -> str:
    # Findings name their checks: a result with other names would be misread.
    parts = json.dumps([_FORMAT, CHECKS, state, thoroughness, episodes, sorted(keys)])
    return f"{blake2b(parts.encode(), digest_size=16).hexdigest()}.json"


def _read(path: Path) -> CheckResult | None:
    try:
        return parse_result(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def check_folder(
    root: Path, episodes: Sequence[int] | None, home: Path, checking: CheckOptions | None = None
) -> CheckResult:
    """Check the chosen episodes of the dataset in a folder; None chooses all."""
    checking = checking or CheckOptions()
    try:
        meta = read_dataset_meta(root)
    except DatasetError as error:
        return _unreadable(root, checking, Check.METADATA, error_message(error, str(root)))
    if episodes is None and not meta.episodes.lengths.sum():
        return _unreadable(root, checking, Check.EPISODES, "no frames")
    source = Source(root, meta, select_episodes(meta.episodes, episodes))
    return check_once(source, home, checking)


def _unreadable(root: Path, checking: CheckOptions, check: str, message: str) -> CheckResult:
    return CheckResult(
        root=str(root),
        thoroughness=checking.thoroughness,
        keys=(),
        num_episodes=0,
        num_frames=0,
        findings=(Finding(check, "bad", message, file="meta"),),
        looked_at={},
        wall_s=0.0,
    )
