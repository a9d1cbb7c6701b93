"""A process that works for one rank: it ends when the rank is gone, and not before."""

import multiprocessing
import os
import signal
import threading
import time

ORPHAN_CHECK_S = 0.5
JOB_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def live_as_long_as_rank() -> None:
    """Ignore the signals of a job, and end this process, whatever it does, with its rank."""
    # They may reach all processes of the job: the rank still needs this one until it has saved.
    for number in JOB_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_exit_with_rank, daemon=True).start()


def _exit_with_rank() -> None:
    """End this process, whatever it is doing, when its rank is gone."""
    rank = multiprocessing.parent_process()
    assert rank is not None
    is_child = os.getppid() == rank.pid
    # The pipe that signals a death is held open by whatever the rank forked later, but its own
    # children get another parent. One forked off a server is no child: its server may die first.
    while rank.is_alive() and is_child == (os.getppid() == rank.pid):
        time.sleep(ORPHAN_CHECK_S)
    os._exit(0)
