"""The folder of an evaluation's results, and documents in it."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from manyhands.atomic import atomic_file
from manyhands.config.commands.eval import EvalCommandConfig
from manyhands.errors import UserError
from manyhands.os_errors import reason_of, writing_remedy
from manyhands.policies.policy import Policy

T = TypeVar("T")


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


def named(job_name: str | None) -> dict[str, str]:
    """The entry of results that names an evaluation, if it has a name."""
    return {} if job_name is None else {"job_name": job_name}
