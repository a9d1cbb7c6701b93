"""Results of the demo, for people and for programs."""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from manyhands import units
from manyhands.atomic import atomic_file
from manyhands.config.commands.eval import EVAL_INFO
from manyhands.demo.recipe import Recipe
from manyhands.evaluation.eval_info import eval_info
from manyhands.evaluation.files import VIDEOS
from manyhands.evaluation.films import write_video
from manyhands.evaluation.rollout import EpisodeResult
from manyhands.evaluation.score import Score, score
from manyhands.launch.program import program
from manyhands.observe.wrapping import print_on
from manyhands.report.page import report_available
from manyhands.report.runs.run_page import write_report
from manyhands.report.runs.run_sections import ReportExtras

SCENE = "tray"


@dataclass(frozen=True)
class Scored:
    """Episodes of a policy, some of them once more with their films, and how long they took."""

    results: list[EpisodeResult]
    filmed: list[EpisodeResult]
    seconds: float

    @property
    def score(self) -> Score:
        """What the episodes amount to."""
        return score(self.results)


@dataclass(frozen=True)
class Outcome:
    """The same episodes before and after training."""

    before: Scored
    after: Scored
    wall_s: float


def show_results(outcome: Outcome, recipe: Recipe, folder: Path, console: Console) -> None:
    """Print the results: a table, a report, and next steps."""
    commands = next_commands(folder)
    console.print(result_table(outcome.before.score, outcome.after.score))
    console.print(f"done in {units.duration(outcome.wall_s)}")
    for name, scored in (("untrained", outcome.before), ("trained", outcome.after)):
        write_evaluation(folder / "run" / "eval" / name, scored)
    missing = report_available()
    if missing is None:
        lead = (
            f"ACT, trained with {recipe.num_processes} processes on {recipe.num_episodes} "
            f"expert episodes. Inputs: {recipe.in_words}."
        )
        extras = ReportExtras(
            title="ACT learns to put a block into a tray",
            lead=lead,
            next_commands=commands,
        )
        page = write_report([folder / "run"], extras=extras)
        console.print(f"report: {page}", soft_wrap=True)
    else:
        print_on(console, missing)
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


def write_evaluation(folder: Path, scored: Scored) -> None:
    """Write results and videos as `manyhands eval` does, for the report."""
    videos = {each.index: str(write_video(folder / VIDEOS, each)) for each in scored.filmed}
    info = eval_info(scored.results, SCENE, scored.seconds, videos)
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_file(folder / EVAL_INFO) as scratch:
        scratch.write_text(json.dumps(info, indent=2) + "\n", encoding="utf-8")


def next_commands(folder: Path) -> list[str]:
    """Commands to try next."""
    dataset, run = (shlex.quote(str(folder / name)) for name in ("dataset", "run"))
    train, torchrun = f"{program()} train", f"{program('torchrun')} --nproc-per-node=2"
    of_all_ranks = program("manyhands-train")
    if "/" not in of_all_ranks:
        of_all_ranks = f"$(which {of_all_ranks})"
    return [
        f"{train} --resume={run} --steps=3000",
        f"{train} --dataset.root={dataset} --policy.type=act --steps=20 --batch_size=4",
        f"{torchrun} {of_all_ranks} --config={run} --output_dir=other",
        f"{train} --help",
    ]


def write_results(path: Path, seed: int, outcome: Outcome) -> None:
    """The results for programs."""
    before, after = outcome.before.score, outcome.after.score
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
