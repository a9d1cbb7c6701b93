"""The Hub as policies use it: its files, and what its library's errors mean."""

from functools import partial
from pathlib import Path

from huggingface_hub import constants, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

# The library's transport has had three names; its errors are found as the base of the library's.
_TRANSPORT_FAULT: type[BaseException] = HfHubHTTPError.__bases__[0]
HUB_FAULTS = (OSError, ValueError, RuntimeError, _TRANSPORT_FAULT)
"""Everything that talking to the Hub can raise through no bug of ours."""

_POLICY_FILES = ["*.json", "*.safetensors"]


def fetch_policy(repo_id: str, revision: str | None = None) -> Path:
    """The folder of a policy's files in the Hub's cache, fetched or, without a network, as it is.

    Raises what is in HUB_FAULTS.
    """
    fetch = partial(snapshot_download, repo_id, revision=revision, allow_patterns=_POLICY_FILES)
    try:
        return Path(fetch())
    except _TRANSPORT_FAULT as error:
        if isinstance(error, HfHubHTTPError):  # The Hub has answered.
            raise
        # The library falls back to its cache where nothing listens, not where talking breaks off.
        try:
            return Path(fetch(local_files_only=True))
        except LocalEntryNotFoundError:
            raise error from None


def why(error: BaseException) -> str:
    """What an error of the Hub's library means, in one line."""
    match error:
        case GatedRepoError():
            return "access to it must be asked for on its page, and `hf auth login` be done"
        case RepositoryNotFoundError():
            return (
                f"{constants.ENDPOINT} has no such repository, or it is private and "
                "`hf auth login` is needed"
            )
        case RevisionNotFoundError():
            return f"{constants.ENDPOINT} has the repository, but no such revision of it"
        case OfflineModeIsEnabled():
            return "HF_HUB_OFFLINE is set"
        case LocalEntryNotFoundError() if error.__cause__ is not None:
            return f"{why(error.__cause__)}; it is not in {constants.HF_HUB_CACHE} either"
        case HfHubHTTPError() if error.response.status_code == 401:
            return f"{constants.ENDPOINT} refused the token; `hf auth login` makes a new one"
        case HfHubHTTPError():
            return f"{error.response.status_code} {error.server_message or _first_line(error)}"
        case ValueError() | RuntimeError():
            return _first_line(error)
        case OSError() if error.filename is not None:  # of this machine, not of the network
            return _first_line(error)
    return f"{constants.ENDPOINT} cannot be reached: {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
