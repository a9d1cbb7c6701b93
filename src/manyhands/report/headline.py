"""The headline of a report: a title and a few large numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from manyhands.config.policies import policy_title
from manyhands.report.series import Series, smoothed
from manyhands.units import count, duration


@dataclass(frozen=True)
class Tile:
    """One large number, its label, and a note."""

    label: str
    value: str
    note: str = ""


def title_of(run: Mapping[str, Any], fallback: str) -> str:
    """Policy and dataset, such as "ACT on pusht", or the fallback when neither is known."""
    policy = str(_section(run, "policy").get("type") or "")
    dataset = _section(run, "dataset")
    data = PurePath(str(dataset.get("repo_id") or dataset.get("root") or "")).name
    known = [policy_title(policy), data]
    return " on ".join(filter(None, known)) or fallback


def tiles_of(run: Mapping[str, Any], metrics: Mapping[str, Series]) -> list[Tile]:
    """The summary numbers of a run, as far as they are known."""
    drawable = {name: series.drawable() for name, series in metrics.items()}
    known = {name: series for name, series in drawable.items() if len(series)}
    tiles = [
        _loss(known),
        _steps(run, known),
        _time(run),
        _speed(known),
        _batch(run),
        _parameters(run),
    ]
    return [tile for tile in tiles if tile]


def _loss(metrics: Mapping[str, Series]) -> Tile | None:
    if "loss" not in metrics:
        return None
    values = smoothed(metrics["loss"]).values
    return Tile("loss", f"{values[-1]:.3g}", f"from {values[0]:.3g}" if len(values) > 1 else "")


def _steps(run: Mapping[str, Any], metrics: Mapping[str, Series]) -> Tile | None:
    if not metrics:
        return None
    last = max(series.steps[-1] for series in metrics.values())
    per_epoch = _amount(run, "batch", "steps_per_epoch")
    epochs = last / per_epoch if per_epoch else 0.0
    return Tile("steps", f"{last:,.0f}", f"{epochs:.3g} epochs" if epochs else "")


def _time(run: Mapping[str, Any]) -> Tile | None:
    wall_s = _amount({"run": run}, "run", "wall_s")
    return Tile("time", duration(wall_s)) if wall_s else None


def _speed(metrics: Mapping[str, Series]) -> Tile | None:
    if "samples_per_s" not in metrics:
        return None
    note = ""
    if "data_wait_share" in metrics:
        note = f"{np.median(metrics['data_wait_share'].values):.0%} waiting for data"
    return Tile("samples/s", f"{np.median(metrics['samples_per_s'].values):,.4g}", note)


def _batch(run: Mapping[str, Any]) -> Tile | None:
    effective = _amount(run, "batch", "effective")
    if not effective:
        return None
    factors = [_amount(run, "batch", key) for key in ("per_process", "processes", "accumulation")]
    product = " × ".join(f"{factor:g}" for factor in factors if factor)
    # What does not divide is no product.
    is_told = all(factors) and _section(run, "batch").get("is_even", True)
    return Tile("samples/step", count(effective), f"= {product}" if is_told else "")


def _parameters(run: Mapping[str, Any]) -> Tile | None:
    total = _amount(run, "policy", "num_parameters")
    trained = _amount(run, "policy", "num_trainable") or _amount(run, "policy", "num_trained")
    if not total:
        return None
    is_partly_frozen = trained and trained != total
    return Tile("parameters", count(total), f"{count(trained)} trained" if is_partly_frozen else "")


def _section(run: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    section = run.get(key)
    return section if isinstance(section, dict) else {}


def _amount(run: Mapping[str, Any], section: str, key: str) -> float:
    """A positive number out of a section; zero when there is none."""
    value = _section(run, section).get(key)
    if isinstance(value, int | float) and 0 < value < np.inf:
        return float(value)
    return 0.0
