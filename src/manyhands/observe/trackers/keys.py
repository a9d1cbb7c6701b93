"""Names of metrics in trackers: LeRobot's for what LeRobot logs, ours for the rest.

`train/` and `eval/` are LeRobot's prefixes. A row of `metrics.jsonl` holds both kinds.
"""

from collections.abc import Mapping
from typing import Any

from manyhands.observe.trackers.tracked_run import TrackedRun

Values = dict[str, float]

EVALUATED = ("held_out_", "eval_", "open_loop_")
"""Beginnings of the names of what is measured on held-out episodes or in simulation."""

TRAIN_NAMES = {"data_s": "dataloading_s"}

EVAL_NAMES = {
    "held_out_loss": "eval_loss",
    "held_out_loss_ema": "eval_loss_ema",
    "eval_sum_reward": "avg_sum_reward",
    "eval_max_reward": "avg_max_reward",
    "eval_episodes": "n_episodes",
    "eval_s": "eval_s",
}

PREDICTION_NAMES = {
    f"held_out_{kind}loss{ending}": f"{name}{ending}"
    for kind, name in (("", "held_out_loss"), ("prediction_", "eval_loss"))
    for ending in ("", "_ema")
}
"""Names where the held-out loss is not that of predictions, which LeRobot logs."""

SHARES = ("eval_success", "eval_expected")
"""Beginnings of the names of shares, which LeRobot logs in percent."""

VIDEO = "eval/video"
EVAL_STEPS = "eval/steps"


def train_values(row: Mapping[str, Any], run: TrackedRun) -> Values:
    """The training metrics of a row, under the names of trackers."""
    step, memory = row["step"], row.get("gpu_memory_bytes")
    values = _counts(step, run)
    values |= {TRAIN_NAMES.get(name, name): value for name, value in _numbers(row, of_eval=False)}
    if isinstance(memory, int | float):
        values["gpu_mem_gb"] = memory / 2**30
    if run.config.ema.enable:
        values |= {"ema/decay": run.config.ema.decay_at(step), "ema/step": step}
    return {f"train/{name}": value for name, value in values.items()}


def eval_values(row: Mapping[str, Any]) -> Values:
    """The evaluation metrics of a row, under the names of trackers."""
    names = EVAL_NAMES | (PREDICTION_NAMES if "held_out_prediction_loss" in row else {})
    return dict(_evaluated(names, name, value) for name, value in _numbers(row, of_eval=True))


def eval_counts(step: int, run: TrackedRun) -> Values:
    """The position of an evaluation, which may be logged later than its step."""
    return {f"eval/{name}": value for name, value in _counts(step, run).items()}


def _evaluated(names: Mapping[str, str], name: str, value: float) -> tuple[str, float]:
    if name.startswith(SHARES):
        return f"eval/pc_{name.removeprefix('eval_')}", 100 * value
    return f"eval/{names.get(name, name.removeprefix('eval_'))}", value


def _counts(step: int, run: TrackedRun) -> Values:
    samples = run.samples_at(step)
    epochs = samples / run.num_frames
    return {
        "steps": step,
        "samples": samples,
        "episodes": epochs * run.num_episodes,
        "epochs": epochs,
    }


def _numbers(row: Mapping[str, Any], of_eval: bool) -> list[tuple[str, float]]:
    return [
        (name, value)
        for name, value in row.items()
        if name != "step"
        and isinstance(value, int | float)
        and name.startswith(EVALUATED) == of_eval
    ]
