"""The demo itself: record, score, train, score again, report."""

import json
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from manyhands import units
from manyhands.atomic import whole_file
from manyhands.config.demo import DemoConfig
from manyhands.config.train import TrainConfig
from manyhands.demo.recipe import Recipe, choose_recipe, train_config_of
from manyhands.demo.record import record_dataset
from manyhands.errors import UserError
from manyhands.parallel.world import num_visible_gpus
from manyhands.policies.load import load_policy
from manyhands.policies.policy import Policy
from manyhands.report.page import ReportExtras, Result, report_available, write_report
from manyhands.rng import derive_seed
from manyhands.sim.rollout import EpisodeResult, Film, roll_out
from manyhands.sim.score import Score, score
from manyhands.sim.task import MAX_STEPS, TrayTask
from manyhands.training.assemble import make_policy, open_training_data
from manyhands.training.ending import Ending
from manyhands.training.processes import train

SCORED_SEEDS = range(50)
FILMED_SEEDS = (0, 1)
FIRST_RECORDED_SEED = 10**6
"""Recorded episodes are never among the scored ones."""
NUM_PICTURES = 8


@dataclass(frozen=True)
class Outcome:
    """What the demo showed."""

    before: list[EpisodeResult]
    after: list[EpisodeResult]
    wall_s: float


def run_demo(config: DemoConfig) -> int:
    """Run the demo; return the exit code."""
    console, start = Console(highlight=False), time.monotonic()
    folder = fresh_folder(config)
    recipe = choose_recipe(config, num_visible_gpus())
    run_config = train_config_of(recipe, config, folder / "dataset", folder / "run")
    console.print(f"[bold]1/4[/] recording {recipe.num_episodes} expert episodes with camera video")
    record_dataset(folder / "dataset", recorded_seeds(config.seed, recipe), recipe.frame_size)
    console.print(f"[bold]2/4[/] scoring the untrained policy on {len(SCORED_SEEDS)} episodes")
    before = play(untrained_policy(run_config), recipe)
    console.print(
        f"[bold]3/4[/] training ACT with {recipe.num_processes} processes; it reads {recipe.inputs}"
    )
    ending = train(run_config)
    if ending is not Ending.FINISHED:
        return ending.exit_code
    console.print("[bold]4/4[/] scoring the trained policy on the same episodes")
    after = play(load_policy(folder / "run" / "checkpoints" / "last"), recipe)
    outcome = Outcome(before, after, time.monotonic() - start)
    conclude(console, config, folder, recipe, outcome)
    return 0


def fresh_folder(config: DemoConfig) -> Path:
    """A folder of this demo's own."""
    if config.output_dir is None:
        now = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        return Path("outputs", "demo", f"{now}_seed{config.seed}")
    if config.output_dir.exists() and any(config.output_dir.iterdir()):
        raise UserError(f"--output_dir={config.output_dir} is not empty; choose another")
    return config.output_dir


def recorded_seeds(seed: int, recipe: Recipe) -> list[int]:
    """Seeds of the episodes to record; other demo seeds record other episodes."""
    first = FIRST_RECORDED_SEED + derive_seed(seed, "recorded episodes") % 2**40
    return list(range(first, first + recipe.num_episodes))


def untrained_policy(config: TrainConfig) -> Policy:
    """The policy as training finds it."""
    dataset, config = open_training_data(config)
    device = torch.device("cuda" if num_visible_gpus() else "cpu")
    policy, _ = make_policy(config, dataset, device)
    return policy


def play(policy: Policy, recipe: Recipe) -> list[EpisodeResult]:
    """The scored episodes, two of them filmed."""
    frame_size = recipe.frame_size if recipe.reads_camera else None
    environment = TrayTask(len(SCORED_SEEDS), frame_size)
    film = Film(seeds=FILMED_SEEDS, frame_size=192)
    return roll_out(policy, environment, SCORED_SEEDS, MAX_STEPS, film)


def conclude(
    console: Console, config: DemoConfig, folder: Path, recipe: Recipe, outcome: Outcome
) -> None:
    """Tell how it went: a table, a report, a file for programs, and what to try next."""
    before, after = score(outcome.before), score(outcome.after)
    commands = next_commands(folder)
    console.print(result_table(before, after))
    console.print(f"done in {units.duration(outcome.wall_s)}")
    missing = report_available()
    if missing is None:
        lead = (
            f"ACT, trained with {recipe.num_processes} processes on {recipe.num_episodes} recorded "
            f"episodes. It reads {recipe.inputs}."
        )
        extras = ReportExtras(
            title="From nothing to a policy that puts a block into a tray",
            lead=lead,
            results=[_result("untrained", before), _result("trained", after)],
            filmstrips=filmstrips(outcome),
            next_commands=commands,
        )
        console.print(f"report: {write_report(folder / 'run', extras)}", soft_wrap=True)
    else:
        console.print(missing)
    console.print("\nnext, try:", *(f"  {line}" for line in commands), sep="\n", soft_wrap=True)
    if config.json is not None:
        write_results(config.json, config, outcome)


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
    """Some episodes in pictures, the same ones before and after."""
    strips = []
    for name, results in (("untrained", outcome.before), ("trained", outcome.after)):
        for result in results:
            if result.frames is not None:
                last = len(result.frames) - 1
                moments = [round(last * part / (NUM_PICTURES - 1)) for part in range(NUM_PICTURES)]
                ending = "success" if result.success else "no success"
                caption = f"{name}, episode {result.seed}: {ending} after {result.length} steps"
                strips.append((caption, [result.frames[moment] for moment in moments]))
    return strips


def next_commands(folder: Path) -> list[str]:
    """Commands that lead on from here."""
    dataset, run = folder / "dataset", folder / "run"
    return [
        f"manyhands train --resume={run} --steps=3000",
        f"manyhands train --dataset.root={dataset} --policy.type=act --steps=20 --batch_size=4",
        f"torchrun --nproc-per-node=2 $(which manyhands-train) --config={run} --output_dir=other",
        "manyhands train --help",
    ]


def write_results(path: Path, config: DemoConfig, outcome: Outcome) -> None:
    """The results for programs."""
    before, after = score(outcome.before), score(outcome.after)
    results = {
        "seed": config.seed,
        "success_before": before.success,
        "success_after": after.success,
        "interval_before": before.interval,
        "interval_after": after.interval,
        "num_episodes": after.num_episodes,
        "wall_s": outcome.wall_s,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as scratch:
        scratch.write_text(json.dumps(results, indent=2), encoding="utf-8")
