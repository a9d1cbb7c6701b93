"""Files of runs as a healthy run writes them, and with one fault each."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

RUN: dict[str, Any] = {
    "resumed_at": 0,
    "step_mode": "compile",
    "hardware": {"cores": 16, "memory_bytes": 64 << 30},
    "batch": {"per_process": 8, "effective": 16},
    "ranks": [{"rank": 0, "host": "node0"}, {"rank": 1, "host": "node0"}],
    "config": {
        "num_workers": 4,
        "save_freq": 100,
        "cache": {"mode": "auto"},
        "step": {"mode": "auto"},
        "optimizer": {"lr": 1e-3, "grad_clip_norm": 10.0},
        "accelerator": {"ddp": {"gradient_compression": "none"}},
    },
}
PHASES = {"forward_s": 0.3, "backward_s": 0.5, "optimizer_s": 0.1}
STEP_S = 0.02
EVERY = 200


def healthy_rows(num_rows: int = 60, seed: int = 0, noise: float = 0.1) -> list[dict[str, Any]]:
    """Rows of a GPU run: a slow first one, then a falling loss and steady speed, with noise."""
    draw = np.random.default_rng(seed)
    rows = []
    for number in range(num_rows):
        step_s = STEP_S * draw.uniform(0.95, 1.05) * (50 if number == 0 else 1)
        row = {"step": EVERY * number or 1, "step_s": step_s, "samples_per_s": 16 / step_s}
        row |= {name: share * step_s for name, share in PHASES.items()}
        row |= {"data_s": draw.uniform(0, 0.04) * step_s, "communication_s": 0.05 * step_s}
        row |= {"checkpoint_s": 0.3 * step_s if number % 20 == 10 else 0.0, "logging_s": 1e-5}
        row["data_wait_share"] = row["data_s"] / step_s
        row["loss"] = (0.2 + math.exp(-number / 15)) * math.exp(noise * draw.normal())
        row["grad_norm"] = 2.0 * math.exp(noise * draw.normal())
        row |= {"lr": 1e-3, "gpu_utilization": draw.uniform(0.88, 0.99), "gpu_memory_share": 0.5}
        row["host_memory_bytes"] = 20 << 30
        if number % 5 == 4:
            row["held_out_loss"] = (0.3 + math.exp(-number / 15)) * draw.uniform(0.99, 1.01)
        rows.append(row)
    return rows


def rank_rows(rows: list[dict[str, Any]], num_ranks: int = 2) -> list[dict[str, Any]]:
    """Rows of equal ranks."""
    names = ("step", "step_s", "data_s", *PHASES, "communication_s")
    return [
        {**{name: row[name] for name in names}, "rank": rank, "host": "node0", "gpu": "H200"}
        for row in rows
        for rank in range(num_ranks)
    ]


def write_run(run_dir: Path, rows: list[dict[str, Any]], ranks: list[dict[str, Any]]) -> Path:
    """Write the files of a run as training does."""
    run_dir.mkdir(parents=True, exist_ok=True)
    (run_dir / "run.json").write_text(json.dumps(RUN))
    for name, found in (("metrics.jsonl", rows), ("ranks.jsonl", ranks)):
        (run_dir / name).write_text("".join(json.dumps(row) + "\n" for row in found))
    return run_dir
