"""Check a dataset as configured."""

from pathlib import Path

from manyhands.config.doctor import CheckedDatasetConfig, DoctorConfig
from manyhands.data.checking.check import Checking, Progress
from manyhands.data.checking.finding import CheckResult
from manyhands.data.checking.folder import check_folder
from manyhands.data.location import locate_dataset, shared_home


def examine(config: DoctorConfig, on_progress: Progress | None = None) -> CheckResult:
    """Check a dataset, or return the cached result if it has not changed."""
    checking = Checking(
        thoroughness="quick" if config.quick else "full",
        num_workers=config.num_workers,
        on_progress=on_progress,
    )
    root, home = _root(config.dataset), config.cache.folder or shared_home()
    return check_folder(root, config.dataset.episodes, home, checking)


def _root(dataset: CheckedDatasetConfig) -> Path:
    # A folder that lacks its metadata is checked too: that is its fault.
    if dataset.root is not None and dataset.root.is_dir():
        return dataset.root
    return locate_dataset(dataset.repo_id, dataset.root, dataset.revision)
