"""Episodes of the scripted ALOHA expert, rendered by several processes at once."""

import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from multiprocessing import active_children, get_context
from multiprocessing.connection import Connection, wait
from typing import Any

from manyhands.config.sections.env import AlohaEnvConfig
from manyhands.data.loading.forkserver import FORKSERVER, start_server
from manyhands.errors import EnvironmentFault, UserError
from manyhands.launch.helper_process import live_as_long_as_rank
from manyhands.sim.aloha import AlohaEnvironment
from manyhands.sim.aloha_expert import Frame, expert_frames

REPORTED_STEPS = 20
"""Steps that a process renders between two reports of its progress."""

Inputs = dict[str, tuple[int, ...]]


def expert_rows(config: AlohaEnvConfig, inputs: Inputs, seed: int) -> Iterator[Frame]:
    """The episode of a seed."""
    return expert_frames(AlohaEnvironment(config, inputs), seed, config.episode_length)


class Rendering:
    """An episode that a process of its own renders."""

    def __init__(self, config: AlohaEnvConfig, inputs: Inputs, seed: int) -> None:
        context: Any = get_context(FORKSERVER)
        self.connection, there = context.Pipe(duplex=False)
        arguments = (there, config, inputs, seed)
        context.Process(target=send_episode, args=arguments, daemon=True).start()
        there.close()
        self.rows: list[Frame] = []
        """Empty until all are rendered."""

    def receive(self) -> int:
        """Receive the rows, or how many steps were rendered since the last report."""
        try:
            message = self.connection.recv()
        except (EOFError, OSError):
            raise EnvironmentFault(
                "a process that renders died. If memory ran out, set a lower --processes"
            ) from None
        if isinstance(message, UserError):
            raise message
        if isinstance(message, int):
            return message
        self.rows = message
        self.connection.close()
        return 0


def send_episode(connection: Connection, config: AlohaEnvConfig, inputs: Inputs, seed: int) -> None:
    """Render an episode; send its progress, and all rows or a usage error at the end."""
    live_as_long_as_rank()
    rows = []
    try:
        for row in expert_rows(config, inputs, seed):
            rows.append(row)
            if len(rows) % REPORTED_STEPS == 0:
                connection.send(REPORTED_STEPS)
    except UserError as error:
        connection.send(error)
    else:
        connection.send(rows)


def rendered_episodes(
    begin: Callable[[int], Rendering],
    seeds: Iterator[int],
    num_processes: int,
    report: Callable[[int], None],
) -> Generator[list[Frame]]:
    """The rows of episodes in the order of their seeds; reports steps as they are rendered."""
    # Ctrl-C reaches all processes of a terminal: the server and its children inherit this.
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    start_server("manyhands.sim.aloha_expert")
    signal.signal(signal.SIGINT, handler)
    episodes: deque[Rendering] = deque()
    try:
        while True:
            running = [each for each in episodes if not each.rows]
            # An episode takes a hundred megabytes of images: only some are rendered ahead.
            num_free = min(num_processes - len(running), 2 * num_processes - len(episodes))
            episodes.extend(map(begin, islice(seeds, num_free)))
            if not episodes:
                return
            ready = wait([each.connection for each in episodes if not each.rows])
            for each in episodes:
                if each.connection in ready:
                    report(each.receive())
            while episodes and episodes[0].rows:
                yield episodes.popleft().rows
    finally:
        for process in active_children():
            process.kill()
