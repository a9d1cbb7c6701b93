"""The HDF5 files of robomimic, and of benchmarks that use its layout: data/demo_N/obs, actions."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from manyhands.data.importing.hdf5_episodes import (
    Hdf5Episodes,
    Hdf5Layout,
    opened_hdf5,
)
from manyhands.data.importing.source import as_text, natural_order
from manyhands.errors import DatasetError

FORMAT = "robomimic"
_DEMOS = "data"


def is_robomimic(file: Any) -> bool:
    """Whether an open HDF5 file has robomimic's layout."""
    if _DEMOS not in file or not hasattr(file[_DEMOS], "keys"):
        return False
    return any("actions" in file[_DEMOS][name] for name in list(file[_DEMOS])[:1])


def open_robomimic(path: Path, files: Sequence[Path]) -> Hdf5Episodes:
    """The demonstrations of one file or several, in the order of their numbers."""
    groups: list[tuple[Path, str]] = []
    for file in files:
        with opened_hdf5(file) as opened:
            demos = sorted(opened[_DEMOS], key=natural_order) if _DEMOS in opened else []
            groups += [(file, f"{_DEMOS}/{name}") for name in demos]
    if not groups:
        raise DatasetError(f"{path} has no demonstrations in the group {_DEMOS}")
    layout = Hdf5Layout(FORMAT, "actions", instruction)
    return Hdf5Episodes(path, layout, groups, _control_rate(files[0]))


def instruction(file: Any, group: Any) -> str | None:
    """The text of a demonstration, which some benchmarks add as JSON."""
    own = _document(group.attrs, "ep_meta").get("lang")
    shared = _document(file[_DEMOS].attrs, "problem_info").get("language_instruction")
    text = own or shared
    return " ".join(text) if isinstance(text, list) else text


def _control_rate(path: Path) -> float | None:
    with opened_hdf5(path) as file:
        environment = _document(file[_DEMOS].attrs, "env_args")
    options = environment.get("env_kwargs")
    rate = options.get("control_freq") if isinstance(options, dict) else None
    return float(rate) if isinstance(rate, int | float) else None


def _document(attributes: Any, key: str) -> dict[str, Any]:
    if key not in attributes:
        return {}
    try:
        document = json.loads(as_text(attributes[key]))
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
