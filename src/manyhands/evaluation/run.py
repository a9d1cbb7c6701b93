"""An evaluation from its flags to its files, on all ranks."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from manyhands.config.commands.eval import EvalCommandConfig, EvaluatedPolicyConfig
from manyhands.config.runs.run_dir import PRETRAINED, PRETRAINED_EMA
from manyhands.config.train import TrainConfig
from manyhands.errors import UserError
from manyhands.evaluation.evaluate import Evaluator, OnResult
from manyhands.evaluation.evaluated_policy import load_evaluated
from manyhands.evaluation.files import EvaluationFiles, write_evaluation
from manyhands.evaluation.results_folder import attempt, results_folder
from manyhands.evaluation.rollout import EpisodeResult, refuse_broken
from manyhands.evaluation.rollout_control import RolloutControl
from manyhands.observe.console import progress_bar
from manyhands.parallel.world import World, joined_world
from manyhands.policies.load import choose_device, find_policy
from manyhands.policies.policy import Policy


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found, and where it lies."""

    policy_folder: Path
    output_dir: Path
    results: list[EpisodeResult]
    seconds: float
    warning: str | None
    """Why there are no videos, or fewer."""
    fault: UserError | None = None
    """Why its files could not be written."""


@dataclass(frozen=True)
class FinishedEpisodes:
    """Episodes that have ended; their files are not written yet."""

    evaluator: Evaluator
    output_dir: Path
    results: list[EpisodeResult]
    seconds: float


OnFinished = Callable[[FinishedEpisodes], None]


def run_evaluation(
    config: EvalCommandConfig,
    control: RolloutControl | None = None,
    on_finished: OnFinished = lambda _: None,
) -> Evaluation | None:
    """Evaluate as one of the ranks; the main one returns the results of all.

    `on_finished` is called on the main rank before videos, which may take longer than the episodes.
    """
    folder = evaluated_folder(config.policy)
    policy = load_evaluated(folder, config)
    with placed([policy], config.policy.device) as world:
        episodes = finished_episodes(config, policy, world, control)
        if world.is_main:
            on_finished(episodes)
        return written_evaluation(config, folder, episodes, world)


@contextmanager
def placed(policies: Sequence[Policy], device: str | None) -> Iterator[World]:
    """Join the ranks, and move policies to the device of this one.

    Policies come on the CPU: a rank does not know its GPU before it has joined.
    """
    first = policies[0].config
    chosen = chosen_device(device, first.device)
    with joined_world(TrainConfig(policy=replace(first, device=str(chosen)))) as world:
        for policy in policies:
            policy.to(world.device)
        yield world


def chosen_device(flag: str | None, saved: str | None) -> torch.device:
    """The device of the flag, which must be here, or one for the policy."""
    try:
        return choose_device(flag, saved)
    except UserError as error:
        raise UserError(f"--policy.device={flag}: {error}. Use cpu or cuda") from None


def evaluated_folder(config: EvaluatedPolicyConfig) -> Path:
    """The folder whose weights are evaluated: a run's averaged ones where it has some."""
    assert config.path is not None
    folder = find_policy(config.path, config.revision)
    averaged = folder.with_name(PRETRAINED_EMA)
    has_average = folder.name == PRETRAINED and averaged.is_dir()
    if config.use_ema and not has_average:
        raise UserError(f"--policy.use_ema=true: {config.path} has no averaged weights")
    # A folder that is named exactly is meant.
    is_exact = Path(config.path).name == PRETRAINED and config.use_ema is None
    return averaged if has_average and config.use_ema is not False and not is_exact else folder


def finished_episodes(
    config: EvalCommandConfig, policy: Policy, world: World, control: RolloutControl | None = None
) -> FinishedEpisodes:
    """Collective. Run the episodes of a policy in simulation."""
    assert config.env is not None
    start = time.monotonic()
    evaluator = Evaluator(policy, config.env, config.eval, config.seed, control)
    output_dir = world.on_main(lambda: results_folder(config, policy))
    with progress_bar("episodes") as on_progress:
        num_done = 0

        def count(_: EpisodeResult) -> None:
            nonlocal num_done
            num_done += 1
            if world.is_main:
                on_progress(num_done, len(evaluator.tasks(world.rank, world.size)))

        results = run_episodes(evaluator, world, count)
    return FinishedEpisodes(evaluator, output_dir, results, time.monotonic() - start)


def written_evaluation(
    config: EvalCommandConfig, folder: Path, episodes: FinishedEpisodes, world: World
) -> Evaluation | None:
    """Collective. Write the files of an evaluation; the main rank returns it."""
    output_dir, results, seconds = episodes.output_dir, episodes.results, episodes.seconds
    with progress_bar("steps of videos") as on_progress:
        files = EvaluationFiles(output_dir, config.max_videos, on_progress, config.job_name)
        written = attempt(
            lambda: write_evaluation(episodes.evaluator, results, seconds, files, world)
        )
    found = Evaluation(folder, output_dir, results, seconds, *written)
    return found if world.is_main else None


def run_episodes(evaluator: Evaluator, world: World, on_result: OnResult) -> list[EpisodeResult]:
    """Collective. Run every episode on one of the ranks; all get all results, in their order."""
    own: list[EpisodeResult] = []
    tasks = evaluator.tasks(world.rank, world.size)
    # Ranks take different times, and none waits for the others in a collective.
    world.on_every_rank(lambda: own.extend(evaluator.results(tasks, on_result)))
    results = [result for part in world.gather(own) for result in part]
    refuse_broken(results)
    return results
