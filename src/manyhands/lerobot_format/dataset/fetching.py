"""Commands that fetch files of a dataset again: from Git LFS, git-annex or the Hub."""

import os
import shlex
from pathlib import Path

from manyhands.lerobot_format.dataset.file_condition import Condition
from manyhands.os_errors import CHECK_PERMISSIONS

AGAIN = "Copy or download the dataset again"
_HUB_CACHE = "datasets--"
_LEROBOT_HOME = ("huggingface", "lerobot")
_DOWNLOAD_FOLDER = ".cache/huggingface"  # Left in a folder by `hf download --local-dir`


def fetch_remedy(path: Path, condition: Condition) -> str:
    """What to do about a file, or a dataset's folder, in a condition: a command where possible."""
    root = dataset_root(path)
    match condition:
        case Condition.LFS_POINTER:
            return _lfs_remedy(root)
        case Condition.ANNEX_LINK:
            return f"Fetch its content: git -C {shlex.quote(str(root))} annex get ."
        case Condition.FORBIDDEN:
            return CHECK_PERMISSIONS
    download = download_command(root)
    return AGAIN if download is None else f"Complete the download: {download}"


def _lfs_remedy(root: Path) -> str:
    if any(_is_there(folder / ".git") for folder in (root, *root.absolute().parents)):
        return f"Run git lfs pull: git -C {shlex.quote(str(root))} lfs pull"
    # An archive of a repository has pointers, and no repository to fetch from.
    return (
        "Run git lfs pull in a clone of its repository (an archive has pointers only), or "
        f"download the dataset: {_hub_download('OWNER/NAME', root)}"
    )


def dataset_root(path: Path) -> Path:
    """The dataset folder of a file: the nearest folder with `meta`, else the file's own."""
    folders = [path, *path.parents]
    return next((folder for folder in folders if _is_there(folder / "meta")), path.parent)


def download_command(root: Path) -> str | None:
    """The command that completes a download from the Hub; None if the folder is none."""
    folder = root.absolute()
    for place, part in enumerate(folder.parts):
        if part.startswith(_HUB_CACHE):
            name = part.removeprefix(_HUB_CACHE).replace("--", "/", 1)
            cache = shlex.quote(str(Path(*folder.parts[:place])))
            revision = folder.parts[place + 2] if len(folder.parts) > place + 2 else "main"
            named = f"hf download {name} --repo-type=dataset --revision={revision}"
            return f"{named} --cache-dir={cache}"
    if folder.parts[-4:-2] == _LEROBOT_HOME:
        return _hub_download("/".join(folder.parts[-2:]), root)
    return _hub_download("OWNER/NAME", root) if _is_there(root / _DOWNLOAD_FOLDER) else None


def _hub_download(name: str, root: Path) -> str:
    return f"hf download {name} --repo-type=dataset --local-dir={shlex.quote(str(root))}"


def _is_there(path: Path) -> bool:
    """Whether something exists; what this user may not see does not."""
    return os.access(path, os.F_OK)
