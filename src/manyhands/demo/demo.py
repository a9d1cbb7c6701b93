"""The demo: record, evaluate, train, evaluate again, report."""

import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track

from manyhands.config.commands.demo import DemoConfig
from manyhands.config.sections.env import TrayEnvConfig
from manyhands.config.sections.eval import EvalConfig
from manyhands.config.train import TrainConfig
from manyhands.data.writing.writer import DatasetWriter
from manyhands.demo.outcome import Outcome, Scored, show_results, write_results
from manyhands.demo.recipe import Recipe, choose_recipe, train_config_of
from manyhands.errors import UserError
from manyhands.evaluation.evaluate import Evaluator
from manyhands.evaluation.films import filmed_first, filming_task
from manyhands.launch.outcome import Ending
from manyhands.parallel.world import num_visible_gpus
from manyhands.policies.load import load_policy
from manyhands.policies.policy import Policy
from manyhands.rng import derive_seed
from manyhands.sim.tray.expert import record_episodes
from manyhands.sim.tray.task import FPS, features
from manyhands.training.setup.assemble import build_initial_policy
from manyhands.training.setup.data import alone, open_training_data
from manyhands.training.spawn import train


def record_dataset(root: Path, seeds: Sequence[int], frame_size: int) -> None:
    """Record one episode per seed into a new dataset."""
    with DatasetWriter.create(
        root, FPS, features(frame_size), robot_type="simulated arm"
    ) as writer:
        episodes = record_episodes(seeds, frame_size)
        for episode in track(episodes, "recording", total=len(seeds), transient=True):
            for frame in episode:
                writer.add_frame(frame)
            writer.save_episode()


NUM_SCORED = 50
NUM_FILMED_BEFORE, NUM_FILMED_AFTER = 2, 4
FIRST_RECORDED_SEED = 10**6  # Recorded episodes are never among the scored ones


def run_demo(config: DemoConfig) -> int:
    """Run the demo; return the exit code."""
    console, start = Console(highlight=False), time.monotonic()
    folder = fresh_folder(config)
    recipe = choose_recipe(config, num_visible_gpus())
    run_config = train_config_of(recipe, config.seed, folder / "dataset", folder / "run")
    console.print(f"[bold]1/4[/] recording {recipe.num_episodes} expert episodes with camera video")
    record_dataset(folder / "dataset", recorded_seeds(config.seed, recipe), recipe.frame_size)
    console.print(f"[bold]2/4[/] evaluating the untrained policy on {NUM_SCORED} episodes")
    before = roll_out_scored(untrained_policy(run_config), NUM_FILMED_BEFORE)
    console.print(f"[bold]3/4[/] training ACT with {recipe.num_processes} processes")
    console.print(f"    inputs: {recipe.in_words}")
    ending = train(run_config)
    if ending is not Ending.FINISHED:
        return ending.exit_code
    console.print("[bold]4/4[/] evaluating the trained policy on the same episodes")
    trained = load_policy(folder / "run" / "checkpoints" / "last")
    after = roll_out_scored(trained, NUM_FILMED_AFTER)
    outcome = Outcome(before, after, time.monotonic() - start)
    show_results(outcome, recipe, folder, console)
    if config.json is not None:
        write_results(config.json, config.seed, outcome)
    return 0


def fresh_folder(config: DemoConfig) -> Path:
    """The output folder of this demo."""
    if config.output_dir is None:
        now = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        return Path("outputs", "demo", f"{now}_seed{config.seed}")
    if config.output_dir.exists() and any(config.output_dir.iterdir()):
        raise UserError(f"--output_dir={config.output_dir} is not empty. Set another --output_dir")
    return config.output_dir


def recorded_seeds(seed: int, recipe: Recipe) -> list[int]:
    """Seeds of the episodes to record; other demo seeds record other episodes."""
    first = FIRST_RECORDED_SEED + derive_seed(seed, "recorded episodes") % 2**40
    return list(range(first, first + recipe.num_episodes))


def untrained_policy(config: TrainConfig) -> Policy:
    """The policy before training."""
    data, config = open_training_data(config, alone)
    device = torch.device("cuda" if num_visible_gpus() else "cpu")
    policy, _ = build_initial_policy(config, data.stats, device)
    return policy


def roll_out_scored(policy: Policy, num_filmed: int) -> Scored:
    """The scored episodes, and some of them filmed, failures first."""
    start = time.monotonic()
    config = EvalConfig(n_episodes=NUM_SCORED, use_async_envs=False)
    evaluator = Evaluator(policy, TrayEnvConfig(), config, seed=0)
    results = evaluator.results(evaluator.tasks(0, num_ranks=1))
    seconds = time.monotonic() - start
    chosen = filmed_first(results, num_filmed)
    filmed = [filming_task(each, FPS) for each in chosen]
    return Scored(results, evaluator.results(filmed), seconds)
