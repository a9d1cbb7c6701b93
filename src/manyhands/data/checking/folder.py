"""Check a dataset folder, whether or not its metadata can be read."""

from collections.abc import Sequence
from pathlib import Path

from manyhands.data.checking import finding as checks
from manyhands.data.checking.check import Checking
from manyhands.data.checking.finding import CheckResult, Finding, message_of
from manyhands.data.checking.remembered import check_once
from manyhands.data.selection import Source, select_episodes
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset import read_dataset_meta


def check_folder(
    root: Path, episodes: Sequence[int] | None, home: Path, checking: Checking | None = None
) -> CheckResult:
    """Check the chosen episodes of the dataset in a folder; None chooses all."""
    checking = checking or Checking()
    try:
        meta = read_dataset_meta(root)
    except DatasetError as error:
        return _useless(root, checking, checks.METADATA, message_of(error, str(root)))
    if episodes is None and not meta.episodes.lengths.sum():
        return _useless(root, checking, checks.EPISODES, "no frames")
    source = Source(root, meta, select_episodes(meta.episodes, episodes))
    return check_once(source, home, checking)


def _useless(root: Path, checking: Checking, check: str, message: str) -> CheckResult:
    """The result for a folder that cannot be checked."""
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
