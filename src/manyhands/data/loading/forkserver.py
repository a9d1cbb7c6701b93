"""The fork server: it imports once what all worker processes need.

Nothing here imports torch, so that the server can begin before anything else does.
"""

import multiprocessing
from multiprocessing import forkserver
from typing import Any

from manyhands.cores import num_cores
from manyhands.launch.main_guard import refuse_unguarded_script

MAX_AUTOMATIC_LOADERS = 16
FORKSERVER = "forkserver"
PRELOADED = (
    "manyhands.data.cache.fill",
    "manyhands.data.checking.check",
    "manyhands.data.loading.workers",
    "manyhands.data.mixture",
)
"""Modules that loader, check and decoding processes need.

The first user starts the server for all; it imports nothing more after that.
"""


def num_loaders(requested: int | None, num_ranks: int) -> int:
    """Loader processes per rank; by default each rank reserves a core for training."""
    if requested is not None:
        return requested
    return max(0, min(MAX_AUTOMATIC_LOADERS, num_cores() // num_ranks - 1))


def start_context(method: str, *modules: str) -> Any:
    """A multiprocessing context; its fork server imports these modules as well."""
    if method != "fork":
        refuse_unguarded_script()
    context: Any = multiprocessing.get_context(method)
    context.set_forkserver_preload([*PRELOADED, *modules])
    return context


def start_server(*modules: str) -> None:
    """Have the server import, which takes seconds, while this process does something else."""
    start_context(FORKSERVER, *modules)
    forkserver.ensure_running()
