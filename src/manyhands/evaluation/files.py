"""Files of an evaluation in simulation: results, videos, film strips."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from manyhands.config.commands.eval import EVAL_INFO
from manyhands.config.schema.decoding import encode
from manyhands.errors import UserError
from manyhands.evaluation.eval_info import eval_info
from manyhands.evaluation.evaluate import Evaluator
from manyhands.evaluation.films import (
    FilmStrip,
    film_strip,
    filmed_first,
    filming_task,
    write_film_strips,
    write_video,
)
from manyhands.evaluation.results_folder import named, write_document, writing
from manyhands.evaluation.rollout import EpisodeResult
from manyhands.observe.console import OnProgress
from manyhands.parallel.world import World

VIDEOS, FILM_STRIPS = "videos", "film_strips.png"


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
