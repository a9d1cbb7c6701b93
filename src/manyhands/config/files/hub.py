"""Downloads from the Hub, and messages for the errors of its library.

Importing that library takes longer than reading flags, so modules that flags need import this late.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from huggingface_hub import constants
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

# The library's HTTP errors had three names; they are the base class of the library's errors.
_TRANSPORT_FAULT: type[BaseException] = HfHubHTTPError.__bases__[0]
HUB_ERRORS = (OSError, ValueError, RuntimeError, _TRANSPORT_FAULT)
"""Everything that talking to the Hub can raise through no bug of ours."""


def snapshot(repo_id: str, **wanted: Any) -> str:
    """Download files of a repository unless cached; return their folder."""
    # Imports the complete library, which most runs do not need.
    from huggingface_hub import snapshot_download

    return str(snapshot_download(repo_id, **wanted))


def fetch(download: Callable[..., str]) -> Path:
    """Run a download of the library; without a network, use its cache."""
    try:
        return Path(download())
    except _TRANSPORT_FAULT as error:
        if isinstance(error, HfHubHTTPError):  # The Hub has responded.
            raise
        # The library uses its cache if a connection fails, but not if a connection breaks.
        try:
            return Path(download(local_files_only=True))
        except LocalEntryNotFoundError:
            raise error from None


def hub_error(error: BaseException, cache: Path | None = None) -> str:
    """Describe an error of the Hub's library in one line; `cache` is a non-default cache folder."""
    match error:
        case GatedRepoError():
            return "access is gated. Request it on the model's page and run `hf auth login`"
        case RepositoryNotFoundError():
            return (
                f"{constants.ENDPOINT} has no such repository, or it is private. Run `hf auth "
                "login` for a private one"
            )
        case RevisionNotFoundError():
            return f"{constants.ENDPOINT} has no such revision of the repository"
        case OfflineModeIsEnabled():
            return "HF_HUB_OFFLINE is set"
        case LocalEntryNotFoundError() if error.__cause__ is not None:
            reason = hub_error(error.__cause__)
            return f"{reason}, and it is not in the cache {cache or constants.HF_HUB_CACHE}"
        case EntryNotFoundError() if not isinstance(error, LocalEntryNotFoundError):
            return f"{constants.ENDPOINT} has no such file in the repository"
        case HfHubHTTPError() if error.response.status_code == 401:
            return f"{constants.ENDPOINT} rejected the token. Run `hf auth login`"
        case HfHubHTTPError():
            return f"{error.response.status_code} {error.server_message or _first_line(error)}"
        case ValueError() | RuntimeError():
            return _first_line(error)
        case OSError() if error.filename is not None:  # of this machine, not of the network
            return _first_line(error)
    return f"{constants.ENDPOINT} cannot be reached: {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
