"""Results of the demo, for people and for programs."""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from manyhands import units
from manyhands.atomic import atomic_file
from manyhands.demo.recipe import Recipe
from manyhands.evaluation.rollout import EpisodeResult
from manyhands.evaluation.score import Score, score
from manyhands.report.page import ReportExtras, Result, report_available, write_report

NUM_FILMED = 8


@dataclass(frozen=True)
class Outcome:
    """The same episodes before and after training."""

    before: list[EpisodeResult]
    after: list[EpisodeResult]
    wall_s: float


def show_results(outcome: Outcome, recipe: Recipe, folder: Path, console: Console) -> None:
    """Print the results: a table, a report, and next steps."""
    before, after = score(outcome.before), score(outcome.after)
    commands = next_commands(folder)
    console.print(result_table(before, after))
    console.print(f"done in {units.duration(outcome.wall_s)}")
    missing = report_available()
    if missing is None:
        lead = (
            f"ACT, trained with {recipe.num_processes} processes on {recipe.num_episodes} "
            f"expert episodes. Inputs: {recipe.in_words}."
        )
        extras = ReportExtras(
            title="ACT learns to put a block into a tray",
            lead=lead,
            results=[_result("untrained", before), _result("trained", after)],
            filmstrips=filmstrips(outcome),
            next_commands=commands,
        )
        console.print(f"report: {write_report(folder / 'run', extras)}", soft_wrap=True)
    else:
        console.print(missing)
    console.print("\nNext steps:", *(f"  {line}" for line in commands), sep="\n", soft_wrap=True)


def result_table(before: Score, after: Score) -> Table:
    """Success before and after, side by side."""
    table = Table("policy", "success", "95 % interval", "episodes")
    for name, each in (("untrained", before), ("trained", after)):
        table.add_row(name, f"{each.success:.0%}", _interval(each), str(each.num_episodes))
    return table


def _interval(each: Score) -> str:
    low, high = each.interval
    return f"{low:.0%} to {high:.0%}"


def _result(label: str, each: Score) -> Result:
    return Result(
        label=label,
        value=f"{each.success:.0%}",
        note=f"{each.num_episodes} episodes, 95 % interval {_interval(each)}",
        share=each.success,
        interval=each.interval,
    )


def filmstrips(outcome: Outcome) -> list[tuple[str, list[np.ndarray]]]:
    """Frames of some episodes, the same ones before and after."""
    strips = []
    for name, results in (("untrained", outcome.before), ("trained", outcome.after)):
        for result in results:
            if result.frames:
                last = len(result.frames) - 1
                moments = [round(last * part / (NUM_FILMED - 1)) for part in range(NUM_FILMED)]
                ending = "success" if result.success else "no success"
                caption = f"{name}, episode {result.seed}: {ending} after {result.length} steps"
                strips.append((caption, [result.frames[moment] for moment in moments]))
    return strips


def next_commands(folder: Path) -> list[str]:
    """Commands to try next."""
    dataset, run = (shlex.quote(str(folder / name)) for name in ("dataset", "run"))
    return [
        f"manyhands train --resume={run} --steps=3000",
        f"manyhands train --dataset.root={dataset} --policy.type=act --steps=20 --batch_size=4",
        f"torchrun --nproc-per-node=2 $(which manyhands-train) --config={run} --output_dir=other",
        "manyhands train --help",
    ]


def write_results(path: Path, seed: int, outcome: Outcome) -> None:
    """The results for programs."""
    before, after = score(outcome.before), score(outcome.after)
    results = {
        "seed": seed,
        "success_before": before.success,
        "success_after": after.success,
        "interval_before": before.interval,
        "interval_after": after.interval,
        "num_episodes": after.num_episodes,
        "wall_s": outcome.wall_s,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as scratch:
        scratch.write_text(json.dumps(results, indent=2), encoding="utf-8")
