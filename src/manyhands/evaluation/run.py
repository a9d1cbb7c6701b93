"""An evaluation from its flags to its files, on all ranks."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import torch

from manyhands.atomic import atomic_file
from manyhands.config.commands.eval import EVAL_INFO, EvalCommandConfig, EvaluatedPolicyConfig
from manyhands.config.runs.run_dir import PRETRAINED, PRETRAINED_EMA
from manyhands.config.schema.decoding import encode
from manyhands.config.train import TrainConfig
from manyhands.errors import UserError
from manyhands.evaluation.eval_info import eval_info
from manyhands.evaluation.evaluate import Evaluator, OnResult
from manyhands.evaluation.evaluated_policy import load_evaluated
from manyhands.evaluation.films import (
    FilmStrip,
    film_strip,
    filmed_first,
    filming_task,
    write_film_strips,
    write_video,
)
from manyhands.evaluation.rollout import EpisodeResult, refuse_broken
from manyhands.evaluation.rollout_control import RolloutControl
from manyhands.observe.console import OnProgress, progress_bar
from manyhands.os_errors import reason_of, writing_remedy
from manyhands.parallel.world import World, joined_world
from manyhands.policies.load import choose_device, find_policy
from manyhands.policies.policy import Policy

VIDEOS, FILM_STRIPS = "videos", "film_strips.png"

T = TypeVar("T")


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


@dataclass(frozen=True)
class EvaluationFiles:
    """Where the files of an evaluation go."""

    folder: Path
    max_videos: int
    on_filmed: OnProgress = lambda done, total: None
    """Called on the main rank, for rendering may take longer than the evaluation."""
    job_name: str | None = None


def write_evaluation(
    evaluator: Evaluator,
    results: Sequence[EpisodeResult],
    seconds: float,
    files: EvaluationFiles,
    world: World,
) -> str | None:
    """Collective. Write the results, then videos; return why some are missing, if so."""
    env = evaluator.env

    def write(videos: Mapping[int, str]) -> None:
        info = eval_info(results, env.type, seconds, videos, evaluator.expected_success)
        document = info | {"env": encode(env)} | named(files.job_name)
        world.on_main(lambda: write_document(files.folder / EVAL_INFO, document))

    write({})
    try:
        videos, crashes = film(evaluator, results, files, world)
    except UserError as error:
        # The same on all ranks. Results without videos are better than none.
        return f"no videos: {error}"
    if videos:
        write(videos)
    missing = [f"no video of episode {index}: {error}" for index, error in crashes.items()]
    return "; ".join(missing) or None


def named(job_name: str | None) -> dict[str, str]:
    """The entry of results that names an evaluation, if it has a name."""
    return {} if job_name is None else {"job_name": job_name}


def film(
    evaluator: Evaluator, results: Sequence[EpisodeResult], files: EvaluationFiles, world: World
) -> tuple[dict[int, str], dict[int, str]]:
    """Collective. Film some episodes, failures first; return videos, and why some have none."""
    chosen = filmed_first(results, files.max_videos)
    own = chosen[world.rank :: world.size]
    films: dict[int, tuple[str, FilmStrip]] = {}
    crashes: dict[int, str] = {}
    num_done = 0

    def count(num_steps: int) -> None:
        nonlocal num_done
        num_done += num_steps
        if world.is_main:
            files.on_filmed(num_done, sum(result.length for result in own))

    def film_own() -> None:
        tasks = [filming_task(result, evaluator.env.fps) for result in own]
        filmed = evaluator.results(tasks, on_steps=count)
        crashes.update((each.index, each.error) for each in filmed if each.error is not None)
        with writing(files.folder):
            for each in (result for result in filmed if result.film is not None):
                path = write_video(files.folder / VIDEOS, each)
                films[each.index] = (str(path), film_strip(each))

    world.on_every_rank(film_own)
    gathered = {index: film for part in world.gather(films) for index, film in part.items()}
    failed = {index: error for part in world.gather(crashes) for index, error in part.items()}

    def write_strips() -> None:
        with writing(files.folder):
            strips = [gathered[each.index][1] for each in chosen if each.index in gathered]
            write_film_strips(files.folder / FILM_STRIPS, strips)

    if gathered:
        world.on_main(write_strips)
    return {index: path for index, (path, _) in gathered.items()}, failed


def write_document(file: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON file for programs."""
    with writing(file.parent):
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(file) as scratch:
            scratch.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Report a folder that cannot be written."""
    try:
        yield
    except OSError as error:
        remedy = writing_remedy(error, "Set another --output_dir")
        raise UserError(f"{folder} cannot be written: {reason_of(error)}. {remedy}") from None


def attempt(write: Callable[[], T]) -> tuple[T | None, UserError | None]:
    """Write files of results; a fault is returned, because results are shown without them too."""
    try:
        return write(), None
    except UserError as error:
        return None, error


def results_folder(config: EvalCommandConfig, policy: Policy) -> Path:
    """The folder of the flag, else a new one named by the time, as LeRobot names it."""
    if config.output_dir is not None:
        return config.output_dir
    now = datetime.now()
    scene = config.env.type if config.env else "open_loop"
    name = f"{now:%H-%M-%S}_{config.job_name or f'{scene}_{policy.config.type}'}"
    return new_folder(Path("outputs", "eval", f"{now:%Y-%m-%d}"), name)


def new_folder(parent: Path, name: str) -> Path:
    """Create a folder; where others have its name, as those of an array job, it gets a number."""
    folder, number = parent / name, 1
    with writing(parent):
        parent.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                folder.mkdir()
                return folder
            except FileExistsError:
                number += 1
                folder = parent / f"{name}_{number}"
