"""The process that others are forked off: it imports once what all of them need.

Nothing here imports torch, so that the server can begin before anything else does.
"""

import multiprocessing
from multiprocessing import forkserver
from typing import Any

from manyhands.cores import num_cores

MAX_AUTOMATIC_LOADERS = 16
FORKSERVER = "forkserver"
PRELOADED = (
    "manyhands.data.cache.fill",
    "manyhands.data.checking.check",
    "manyhands.data.loading.workers",
    "manyhands.data.mixture",
)
"""What loader processes run, and those that check and decode.

Whoever is first starts the server for all, and it imports nothing more after that.
"""


def num_loaders(asked: int | None, num_ranks: int) -> int:
    """Loader processes of each rank of a machine; by default a rank keeps a core for training."""
    if asked is not None:
        return asked
    return max(0, min(MAX_AUTOMATIC_LOADERS, num_cores() // num_ranks - 1))


def starting_by(method: str, *modules: str) -> Any:
    """What starts processes; those forked off a server find these modules imported as well."""
    context: Any = multiprocessing.get_context(method)
    context.set_forkserver_preload([*PRELOADED, *modules])
    return context


def start_server() -> None:
    """Have the server import, which takes seconds, while this process does something else."""
    starting_by(FORKSERVER)
    forkserver.ensure_running()
