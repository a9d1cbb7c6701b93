"""The HDF5 files of ALOHA: one per episode, with observations and action."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from manyhands.data.importing.hdf5_episodes import INSTRUCTION, Hdf5Episodes, Hdf5Layout
from manyhands.data.importing.source import as_text

FORMAT = "aloha"
_ACTIONS = "action"
_TEXTS = (INSTRUCTION, "language_raw", "instruction", "task")


def is_aloha(file: Any) -> bool:
    """Whether an open HDF5 file has ALOHA's layout."""
    return "observations" in file and _ACTIONS in file


def open_aloha(path: Path, files: Sequence[Path]) -> Hdf5Episodes:
    """The episodes of these files, in the order of their numbers."""
    layout = Hdf5Layout(FORMAT, _ACTIONS, instruction)
    return Hdf5Episodes(path, layout, [(file, "/") for file in files], fps=None)


def instruction(file: Any, group: Any) -> str | None:
    """The text of an episode, which some recorders add as an attribute or an array."""
    for name in _TEXTS:
        if name in file.attrs:
            return as_text(file.attrs[name])
        if name in group and group[name].dtype.kind in "OS" and group[name].size == 1:
            return as_text(group[name][()])
    return None
