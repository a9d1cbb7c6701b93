"""Runs in real processes that start at once: they are forked when everything is imported.

Reads one run after the other from its input, as [number of processes, output folder, flags, exit
code], which ranks that end for the reason of another need not have.
"""

import gc
import json
import os
import sys
import traceback
from pathlib import Path

import numpy.ma  # noqa: F401
import torch
import torch._dynamo  # The first optimizer of each process would load it.
import torch.distributed.checkpoint  # And the first sharded tensor that is saved this.

import manyhands.parallel.sharded_engine  # noqa: F401
from manyhands.config.resolve import read_train_config
from manyhands.errors import Diverged, RankLost, UserError
from manyhands.launch.workers import free_port
from manyhands.parallel.world import joined_world
from manyhands.training.loop import train
from manyhands.training.setup.assemble import assemble
from manyhands.training.start import begin


def train_rank(run_dir: Path, argv: list[str]) -> None:
    """Train as one rank, and write down the random numbers it has for the first update."""
    torch.set_num_threads(1)
    config = read_train_config(argv)
    with joined_world(config) as world:
        run = assemble(config, run_dir, world)
        begin(run)
        train(run)
        draws = {name: value.tolist() for name, value in run.learner.draws(0).items()}
        (run_dir / f"draws-{world.rank}.json").write_text(json.dumps(draws))


def start_rank(rank: int, num_ranks: int, port: int, run_dir: Path, argv: list[str]) -> int:
    """Start a process as a launcher would."""
    pid = os.fork()
    if pid:
        return pid
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": num_ranks}
    place |= {"LOCAL_WORLD_SIZE": num_ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in place.items()})
    try:
        train_rank(run_dir, argv)
    except (UserError, Diverged, RankLost) as error:
        os._exit(error.exit_code)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def load_once(argv: list[str]) -> None:
    """Import here what every rank of a run would import."""
    if any("smolvla" in flag or "peft" in flag for flag in argv):
        import peft  # noqa: F401
        from transformers import SmolVLMForConditionalGeneration  # noqa: F401


if __name__ == "__main__":
    for line in sys.stdin:
        num_ranks, folder, argv, code = json.loads(line)
        load_once(argv)
        # Every rank collects garbage at its end: not among what was here before.
        gc.freeze()
        port = free_port()
        pids = [start_rank(rank, num_ranks, port, Path(folder), argv) for rank in range(num_ranks)]
        codes = {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids}
        if code not in codes or codes - {code, RankLost.exit_code}:
            sys.exit(1)
