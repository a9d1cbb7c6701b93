"""`manyhands bench resume`: runs killed at any moment, and what saves cost."""

import importlib
import runpy
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from manyhands.cli.flags import read_config, write_results
from manyhands.errors import EnvironmentFault
from manyhands.launch.environment import current_launcher
from manyhands.observe.console import progress_bar
from manyhands.units import duration, num_bytes
from manyhands_bench.config import BenchResumeConfig
from manyhands_bench.resume.fork_server import serve

if TYPE_CHECKING:
    from manyhands_bench.resume.campaign import ResumeResult
    from manyhands_bench.resume.delay import Delay
    from manyhands_bench.resume.trial import Tally

USAGE = """manyhands bench resume [--kills=100] [--seed=N] [--flag=value ...]

Starts small runs of ACT and Diffusion Policy in one process, with DDP and with FSDP2, kills their
processes (any rank, launchers, loaders) with kill -9 at random moments, during saves too, and
restarts them. In the end weights, optimizer, losses and samples must equal those of an
uninterrupted run, bit for bit, and no process may remain. Needs neither a dataset nor a GPU.

Also measures how long training waits for an asynchronous and a synchronous save of 500 MB."""

IMPORTED_BY_RUNS = (
    "manyhands.cli.train",
    "manyhands.training.start",
    "manyhands.policies.act.model",
    "manyhands.policies.diffusion.model",
    "torch._dynamo",
)
"""What runs would import by and by; forked, they find it there."""
MOMENTS = ("start", "update", "save")
TARGETS = ("launcher", "rank 0", "rank 1", "loader")
WIDTH = 100
"""Of a table in a file, where nobody says how wide it may be."""
MAX_SHARE = 0.15
"""The part of a save that training should wait for at most."""


def bench_resume_command(arguments: Sequence[str]) -> int:
    """Kill runs and time saves; return the exit code."""
    bench = read_config(BenchResumeConfig, USAGE, arguments)
    if current_launcher().started_ranks:
        raise EnvironmentFault(
            "bench resume starts its own processes. Run it without torchrun, accelerate launch or "
            "srun"
        )
    from manyhands_bench.resume.campaign import bench_resume

    with progress_bar("killing") as on_progress:
        result = bench_resume(bench, on_progress)
    show(result)
    write_results(bench.json, result.as_json())
    return 1 if result.failures else 0


def fork_server_command(_: Sequence[str]) -> int:
    """Be the process that bench resume has its runs forked off."""
    for name in IMPORTED_BY_RUNS:
        importlib.import_module(name)
    serve(train_as_program)
    return 0


def train_as_program(arguments: Sequence[str]) -> int:
    """Do what `manyhands train` does in a process of its own."""
    sys.argv = ["manyhands", "train", *arguments]
    try:
        runpy.run_module("manyhands", run_name="__main__")
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def show(result: "ResumeResult") -> None:
    """The result as a table, and what failed."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    if result.tallies:
        console.print(kill_table(result.tallies))
    for line in captions(result):
        console.print(line, soft_wrap=True, markup=False)


def kill_table(tallies: "Sequence[Tally]") -> Table:
    """Kills by moment and by victim: the same kills, counted in two ways."""
    names = ("kills", *MOMENTS, *TARGETS, "runs", "failed")
    counts = [counts_of(tally) for tally in tallies]
    totals = [sum(column) for column in zip(*counts, strict=True)]
    table = Table("run", *names, box=SIMPLE_HEAD, collapse_padding=True)
    for tally, row in zip(tallies, counts, strict=True):
        table.add_row(tally.case, *map(str, row))
    table.add_section()
    table.add_row("all", *map(str, totals))
    return table


def counts_of(tally: "Tally") -> list[int]:
    """A row of the table."""
    moments = [tally.moments[name] for name in MOMENTS]
    victims = [tally.victims[name] for name in TARGETS]
    return [tally.kills, *moments, *victims, tally.runs, len(tally.failures)]


def captions(result: "ResumeResult") -> Iterator[str]:
    """What the table does not say."""
    if result.tallies:
        starts = sum((tally.starts for tally in result.tallies), Counter[str]())
        yield (
            f"kill -9 at {result.kills} moments, {starts['launched']} in launched and "
            f"{starts['forked']} in forked runs; {len(result.failures)} failures; runs that "
            f"finished were compared; seed {result.seed}, {duration(result.wall_s)}"
        )
    yield from (f"FAILED: {failure}" for failure in result.failures)
    if result.folder is not None:
        yield f"run folders: {result.folder}"
    if result.delay is not None:
        yield from delay_captions(result.delay)


def delay_captions(delay: "Delay") -> Iterator[str]:
    """What saves cost."""
    yield (
        f"saving {num_bytes(delay.state_bytes)} delays training by {delay.async_s:.2f} s "
        f"asynchronously and by {delay.sync_s:.2f} s synchronously: {delay.async_over_sync:.1%} "
        f"(steps of {delay.update_s * 1e3:.0f} ms)"
    )
    if delay.async_over_sync > MAX_SHARE:
        yield (
            f"WARNING: that is above {MAX_SHARE:.0%}; if other programs use the cores or the "
            "disk, measure again on an idle machine"
        )
