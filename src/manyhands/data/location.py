"""Locate a dataset on this machine, or download it from the Hub."""

import atexit
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from huggingface_hub import constants
from huggingface_hub.errors import RevisionNotFoundError

from manyhands.config.files.hub import HUB_ERRORS, hub_error, snapshot
from manyhands.config.paths.similar import similar_path
from manyhands.errors import DatasetError
from manyhands.lerobot_format.dataset.unusable_file import check_file
from manyhands.lerobot_format.names import CODEBASE_VERSION, INFO_FILE

PRIVATE_MODE = 0o700
_REMEDY = "Set --dataset.root=DIR to the folder of a dataset"


def locate_dataset(
    repo_id: str | None,
    root: Path | None = None,
    revision: str | None = None,
    cache_dir: Path | None = None,
) -> Path:
    """The folder of a dataset: `root`, else `cache_dir/repo_id`, else a download from the Hub."""
    if root is not None:
        if not (root / INFO_FILE).is_file():
            if (root / INFO_FILE).parent.is_dir():
                # A dataset that was not copied completely: name the file and how to fetch it.
                check_file(root / INFO_FILE)
            missing = INFO_FILE if root.exists() else "the folder"
            raise DatasetError(
                f"{root} is not a LeRobot dataset ({missing} is missing)"
                f"{similar_path(root) or '.'} {_REMEDY}"
            )
        return root
    if repo_id is None:
        raise DatasetError("no dataset given. Set --dataset.repo_id=NAME or --dataset.root=DIR")
    cache = cache_dir or lerobot_home()
    # A recorded dataset is what its owner means, unless a revision of the Hub's copy is requested.
    if revision is None and (cache / repo_id / INFO_FILE).is_file():
        return cache / repo_id
    return _download(repo_id, revision, cache)


def lerobot_home() -> Path:
    """LeRobot's folder of datasets."""
    home = os.environ.get("HF_LEROBOT_HOME")
    return Path(home).expanduser() if home else Path(constants.HF_HOME) / "lerobot"


def default_home(environ: Mapping[str, str]) -> Path:
    """The folder on disk: $MANYHANDS_HOME, else `manyhands` in the user's cache folder."""
    named = environ.get("MANYHANDS_HOME")
    if named:
        return Path(named).expanduser().absolute()
    cache = environ.get("XDG_CACHE_HOME")
    # The XDG standard says to ignore relative paths.
    if cache and Path(cache).is_absolute():
        return Path(cache) / "manyhands"
    return Path.home() / ".cache" / "manyhands"


def shared_home() -> Path:
    """The folder for files that the processes and runs of a machine share."""
    home = default_home(os.environ)
    nearest = next(path for path in (home, *home.parents) if path.exists())
    if os.environ.get("MANYHANDS_HOME") or os.access(nearest, os.W_OK):
        return home
    # A home that cannot be written to is common in containers; cached files can be recreated.
    fallback = Path(tempfile.gettempdir()) / f"manyhands-{os.getuid()}"
    return fallback if make_private_folder(fallback) else _home_of_one_run(fallback)


def make_private_folder(folder: Path) -> bool:
    """Create a folder that only this user can enter; False if the path is not this user's."""
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=PRIVATE_MODE)
        found = folder.lstat()
        is_writable_by_others = bool(stat.S_IMODE(found.st_mode) & 0o022)
        # Compiled kernels are run without checks: files that others can write are not trusted.
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or is_writable_by_others:
            return False
        folder.chmod(PRIVATE_MODE)
    except OSError:
        return False
    return True


def _home_of_one_run(refused: Path) -> Path:
    """A new private folder, removed when this process ends; its child processes share it."""
    folder = Path(tempfile.mkdtemp(prefix="manyhands-"))
    os.environ["MANYHANDS_HOME"] = str(folder)
    atexit.register(_remove, folder, os.getpid())
    print(
        f"manyhands: {refused} is not a folder that only this user can write to; using "
        f"{folder} for this run only. Remove {refused}, or set MANYHANDS_HOME=DIR to reuse caches "
        "between runs",
        file=sys.stderr,
    )
    return folder


def _remove(folder: Path, owner: int) -> None:
    # A forked child process inherits what its parent does at exit.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def is_in_pod() -> bool:
    """Whether Kubernetes started this process."""
    return "KUBERNETES_SERVICE_HOST" in os.environ


def _download(repo_id: str, revision: str | None, cache: Path) -> Path:
    try:
        return _snapshot(repo_id, revision, cache / "hub")
    except HUB_ERRORS as error:
        name = repo_id if revision is None else f"{repo_id} at {revision}"
        raise DatasetError(
            f"dataset {name} is not in {cache} and cannot be downloaded: "
            f"{hub_error(error, cache / 'hub')}{similar_path(Path(repo_id))}\n{_REMEDY}"
        ) from None


def _snapshot(repo_id: str, revision: str | None, cache: Path) -> Path:
    download = partial(snapshot, repo_id, repo_type="dataset", cache_dir=cache)
    try:
        return Path(download(revision=revision or CODEBASE_VERSION))
    except RevisionNotFoundError:
        if revision is not None:
            raise
    # Not every owner tags the format version: then use the newest files.
    return Path(download())
