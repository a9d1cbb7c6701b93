"""Errors of the operating system in words, each with the remedy that fits it."""

import errno
import os

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
USERS_OWN = (*DISK_FULL, *FORBIDDEN, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOTDIR, errno.ELOOP)
"""Errors that users cause and can fix; all others are our bugs, or faults of the hardware."""

CHECK_PERMISSIONS = "Check its permissions and those of its folders"


def reason_of(error: Exception) -> str:
    """The reason of an error, in the system's own words if it has one."""
    return getattr(error, "strerror", None) or str(error)


def writing_remedy(error: Exception, otherwise: str) -> str:
    """What to do about a file that cannot be written: only a full disk needs space."""
    is_full = isinstance(error, OSError) and error.errno in DISK_FULL
    return f"Free disk space, or {otherwise[0].lower()}{otherwise[1:]}" if is_full else otherwise


def reading_remedy(error: Exception, otherwise: str) -> str:
    """What to do about a file that cannot be read: no copy helps against permissions."""
    is_forbidden = isinstance(error, OSError) and error.errno in FORBIDDEN
    return CHECK_PERMISSIONS if is_forbidden else otherwise


def explain(error: OSError) -> str:
    """An error that nothing expected, with its file and a remedy."""
    name = error.filename2 or error.filename
    file = "" if name is None else f" {os.fsdecode(name)}"
    verb = "write" if error.errno in DISK_FULL else "access"
    remedy = reading_remedy(error, "Choose another path")
    return f"cannot {verb}{file}: {os.strerror(error.errno or 0)}. {writing_remedy(error, remedy)}"
