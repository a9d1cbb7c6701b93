"""What errors of the Hub's library mean."""

from importlib import import_module

import pytest
from huggingface_hub import constants, errors

from manyhands.config.files.hub import HUB_ERRORS, hub_error

# The library's transport, whichever it has.
http = import_module(errors.HfHubHTTPError.__bases__[0].__module__.partition(".")[0])


def answered(status: int, kind=errors.HfHubHTTPError, told: str | None = None):
    request = http.Request("GET", "http://127.0.0.1:9/api")
    return kind("many\nlines", response=http.Response(status, request=request), server_message=told)


# Older versions of the library have but one error for files that are missing.
remote_entry = getattr(errors, "RemoteEntryNotFoundError", errors.EntryNotFoundError)


def offline(cause: Exception) -> Exception:
    error = errors.LocalEntryNotFoundError("not found on disk")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (answered(404, errors.RepositoryNotFoundError), "no such repository"),
        (answered(403, errors.GatedRepoError), "access is gated"),
        (answered(404, errors.RevisionNotFoundError), "no such revision"),
        (answered(404, remote_entry), "no such file"),
        (answered(500, told="overloaded"), "500 overloaded"),
        (answered(502), "502 many"),
        (answered(401), "rejected the token"),
        (answered(400, errors.BadRequestError, "bad name"), "400 bad name"),
        (errors.OfflineModeIsEnabled("x"), "HF_HUB_OFFLINE is set"),
        (offline(errors.OfflineModeIsEnabled("x")), constants.HF_HUB_CACHE),
        (http.ConnectError("no route"), f"{constants.ENDPOINT} cannot be reached: no route"),
        (http.ReadTimeout(""), "cannot be reached: ReadTimeout"),
        (ConnectionError("reset"), "cannot be reached: reset"),
        (FileNotFoundError(2, "No such file", "/x/README.md"), "[Errno 2] No such file: '/x/READ"),
        (ValueError("malformed answer\nmore"), "malformed answer"),
    ],
)
def test_each_error_is_one_line_that_says_what_to_look_at(error, words):
    assert isinstance(error, HUB_ERRORS)
    assert words in hub_error(error)
    assert "\n" not in hub_error(error)
