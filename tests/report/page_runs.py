"""Run directories for tests of pages, and a reader of the pages."""

import json
import math
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from filmed import film_of

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.resolve import resolve_config
from manyhands.config.schema.decoding import encode
from manyhands.config.train import DatasetConfig, LaunchConfig, TrainConfig
from manyhands.evaluation.action_errors import action_errors, errors_document
from manyhands.evaluation.eval_info import eval_info
from manyhands.evaluation.films import write_video
from manyhands.evaluation.rollout import EpisodeResult
from manyhands.report.runs.live_page import LivePage
from manyhands.report.runs.server import PageServer

VOID = {"meta", "img", "br", "link", "input", "hr"}
HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>&\"</style>\ud800"
NUM_FRAMES = 12
CAMERA = {"observation.image": PolicyFeature(FeatureType.VISUAL, (3, 96, 96))}


class PageReader(HTMLParser):
    """Elements of a page in order; fails on tags that do not close where they should."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.charts: list[dict[str, Any]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" in self.open and data.startswith("{"):
            self.charts.append(json.loads(data))
        elif not {"script", "style"} & set(self.open):
            self.texts.append(data.strip())

    def tags(self, name: str) -> list[dict[str, str | None]]:
        """The attributes of all elements of a name."""
        return [attrs for tag, attrs in self.elements if tag == name]

    @property
    def text(self) -> str:
        """All that a reader sees."""
        return re.sub(r"\s+", " ", " ".join(filter(None, self.texts)))


def run_facts(**others: Any) -> dict[str, Any]:
    """What `run.json` says of a small run."""
    config = TrainConfig(
        dataset=DatasetConfig(root=Path("data/pusht")),
        policy=ActConfig(chunk_size=20, n_action_steps=10, input_features=CAMERA),
        output_dir=Path("outputs/pick"),
        seed=7,
        steps=400,
        launch=LaunchConfig(num_processes=2),
    )
    return {
        "started_at": "2025-01-02T03:04:05+00:00",
        "ending": "finished",
        "job_name": "pick",
        "wall_s": 61.0,
        "versions": {"torch": "2.13.0"},
        "policy": {"type": "act", "num_parameters": 1_000_000, "num_trainable": 1_000_000},
        "dataset": {"root": "data/pusht", "fingerprint": "abc"},
        "budget": {"steps": 400},
        "ranks": [{"rank": rank, "host": "a", "device": f"cuda:{rank}"} for rank in range(2)],
        "command": ["manyhands", "train", "--policy.type=act", "--config=/tmp/x/config.json"],
        "config": encode(resolve_config(config)),
    } | others


def metric_rows(num_rows: int) -> list[dict[str, Any]]:
    """Rows with losses, phases, memory and, now and then, evaluations."""
    rng = np.random.default_rng(0)
    rows = []
    for place in range(num_rows):
        loss = math.exp(-4 * place / num_rows) + 0.02 * rng.random()
        row = {"step": 4 * (place + 1), "loss": loss, "l1_loss": loss, "lr": 1e-4}
        row |= {"grad_norm": 3 * rng.random() + 1, "samples_per_s": 900 + 100 * rng.random()}
        row |= {"data_wait_share": 0.02, "step_s": 0.1, "data_s": 0.002, "forward_s": 0.03}
        row |= {"backward_s": 0.05, "optimizer_s": 0.01, "update_s": 0.09, "num_skipped": 0}
        row |= {"gpu_memory_bytes": 2**33, "gpu_utilization": 0.9}
        if place % 25 == 24:
            row |= {"held_out_loss": loss * 1.1, "eval_success": 0.5, "eval_success_low": 0.3}
            row |= {"eval_success_high": 0.7, "eval_max_reward": 0.8, "eval_episodes": 20}
        rows.append(row)
    return rows


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write a JSON-lines file."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_run(folder: Path, num_rows: int = 100, **facts: Any) -> Path:
    """A run directory with `run.json` and `metrics.jsonl`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(run_facts(**facts)))
    write_rows(folder / "metrics.jsonl", metric_rows(num_rows))
    return folder


def write_ranks(folder: Path, num_ranks: int = 4) -> None:
    """Measurements of ranks, of which the last one is slow and the others wait for it."""
    rows = []
    for step in (10, 20, 30):
        for rank in range(num_ranks):
            waits = 0.04 if rank < num_ranks - 1 else 0.001
            row = {"step": step, "rank": rank, "host": "node0", "gpu": "H200", "step_s": 0.1}
            rows.append(row | {"communication_s": waits, "gpu_memory_bytes": 2**33 + rank})
    write_rows(folder / "ranks.jsonl", rows)


def episode(index: int, success: bool, num_frames: int = 0) -> EpisodeResult:
    """An episode; its frames grow brighter."""
    frames = tuple(np.full((32, 48, 3), 20 * place, np.uint8) for place in range(num_frames))
    rewards = (float(success), float(success))
    return EpisodeResult(index, 1000 + index, success, *rewards, 30 + index, film=film_of(frames))


def write_evaluation(folder: Path, successes: list[bool], num_filmed: int = 0) -> None:
    """The files of `manyhands eval`, with videos of the first episodes."""
    results = [
        episode(index, success, NUM_FRAMES * (index < num_filmed))
        for index, success in enumerate(successes)
    ]
    folder.mkdir(parents=True)
    filmed = results[:num_filmed]
    videos = {each.index: str(write_video(folder / "videos", each)) for each in filmed}
    (folder / "eval_info.json").write_text(json.dumps(eval_info(results, "pusht", 2.0, videos)))


def write_open_loop(folder: Path) -> None:
    """The files of an open-loop evaluation of two joints."""
    folder.mkdir(parents=True)
    recorded = np.stack([np.sin(np.arange(40) / 6), np.cos(np.arange(40) / 6)], axis=1)
    chunks = np.stack([recorded[first : first + 10] + 0.1 for first in (0, 10, 20)])
    found = np.stack([recorded[first : first + 10] for first in (0, 10, 20)])
    errors = action_errors(chunks, found, np.zeros((3, 10), bool))
    document = {"episodes_are": "held out of training"} | errors_document(errors, ["x", "y"], 10)
    (folder / "open_loop.json").write_text(json.dumps(document))
    traced = [
        {"first": 10 * place, "actions": chunk.tolist()} for place, chunk in enumerate(chunks)
    ]
    trace = {"episode": 3, "recorded": recorded.tolist(), "chunks": traced}
    traces = {"fps": 10, "joints": ["x", "y"], "episodes": [trace]}
    (folder / "open_loop_traces.json").write_text(json.dumps(traces))


def write_everything(folder: Path) -> Path:
    """A run directory with every file a page reads."""
    write_run(folder)
    write_ranks(folder)
    write_evaluation(folder / "eval" / "200", [False, False, False], num_filmed=1)
    write_evaluation(folder / "eval" / "400", [True, False, True], num_filmed=2)
    write_open_loop(folder / "open_loop")
    return folder


@contextmanager
def serving(run: Path) -> Iterator[PageServer]:
    """A server of a run's live page, answering from a thread."""
    with PageServer(LivePage(run, num_frames=0), "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(timeout=20)
