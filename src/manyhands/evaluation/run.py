"""An evaluation from its flags to its files, on all ranks."""

import json
import time
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from manyhands.atomic import atomic_file
from manyhands.config.eval import EVAL_INFO, EvalCommandConfig, EvaluatedPolicyConfig
from manyhands.config.run_dir import PRETRAINED, PRETRAINED_EMA
from manyhands.config.schema.decoding import encode
from manyhands.config.train import TrainConfig
from manyhands.errors import UserError
from manyhands.evaluation.eval_info import eval_info
from manyhands.evaluation.evaluate import Evaluator
from manyhands.evaluation.films import filmed_first, write_film_strips, write_video
from manyhands.evaluation.rollout import EpisodeResult, EpisodeTask
from manyhands.observe.console import progress_bar
from manyhands.parallel.world import World, joined_world
from manyhands.policies.load import find_policy, load_policy
from manyhands.policies.policy import Policy

VIDEOS, FILM_STRIPS = "videos", "film_strips.png"


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found, and where it lies."""

    policy_folder: Path
    output_dir: Path
    results: list[EpisodeResult]
    seconds: float


def run_evaluation(config: EvalCommandConfig) -> Evaluation | None:
    """Evaluate as one of the ranks; the main one returns the results of all."""
    folder = evaluated_folder(config.policy)
    policy = load_policy(folder, config.policy.device)
    placed = TrainConfig(policy=replace(policy.config, device=policy.device.type))
    with joined_world(placed) as world:
        policy.to(world.device)
        return evaluate_policy(config, folder, policy, world)


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


def evaluate_policy(
    config: EvalCommandConfig, folder: Path, policy: Policy, world: World
) -> Evaluation | None:
    """Collective. Evaluate a policy in simulation and write its files."""
    assert config.env is not None
    start = time.monotonic()
    output_dir = world.broadcast(config.output_dir or default_folder(config, policy))
    evaluator = Evaluator(policy, config.env, config.eval, config.seed)
    tasks = evaluator.tasks(world.rank, world.size)
    with progress_bar("episodes") as on_progress:
        num_done = 0

        def count(_: EpisodeResult) -> None:
            nonlocal num_done
            num_done += 1
            if world.is_main:
                on_progress(num_done, len(tasks))

        own = evaluator.results(tasks, count)
    results = [result for part in world.gather(own) for result in part]
    seconds = time.monotonic() - start
    videos = film(evaluator, results, config, output_dir, world)
    if not world.is_main:
        return None
    info = eval_info(results, config.env.type, seconds, videos) | {"env": encode(config.env)}
    output_dir.mkdir(parents=True, exist_ok=True)
    with atomic_file(output_dir / EVAL_INFO) as scratch:
        scratch.write_text(json.dumps(info, indent=2) + "\n", encoding="utf-8")
    return Evaluation(folder, output_dir, results, seconds)


def film(
    evaluator: Evaluator,
    results: list[EpisodeResult],
    config: EvalCommandConfig,
    output_dir: Path,
    world: World,
) -> dict[int, str]:
    """Collective. Film some episodes, failures first: they are run again, and go the same way."""
    assert config.env is not None
    chosen = filmed_first(results, config.max_videos)
    tasks = [EpisodeTask(result.index, result.seed, is_filmed=True) for result in chosen]
    filmed = evaluator.results(tasks[world.rank :: world.size])
    folder = output_dir / VIDEOS
    paths = {each.index: str(write_video(folder, each, config.env.fps)) for each in filmed}
    if world.is_main:
        write_film_strips(output_dir / FILM_STRIPS, filmed)
    return {index: path for part in world.gather(paths) for index, path in part.items()}


def default_folder(config: EvalCommandConfig, policy: Policy) -> Path:
    """A folder named by the time, as LeRobot names it."""
    now = datetime.now()
    scene = config.env.type if config.env else "open_loop"
    name = f"{now:%H-%M-%S}_{scene}_{policy.config.type}"
    return Path("outputs", "eval", f"{now:%Y-%m-%d}", name)
