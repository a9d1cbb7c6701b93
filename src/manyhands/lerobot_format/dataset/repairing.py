"""Commands against contradictions in a dataset's files: a repaired copy, or computing again."""

import shlex
from pathlib import Path

from manyhands.lerobot_format import names

_COMPUTED = (Path(names.STATS_FILE).name, Path(names.EPISODE_STATS_LINES_FILE).name)


def repair_command(root: Path | str) -> str:
    """The command that writes a repaired copy of a dataset."""
    folder = str(root).rstrip("/")
    old, new = shlex.quote(folder), shlex.quote(f"{folder}_repaired")
    return f"manyhands convert --repair --dataset.root={old} --output_dir={new}"


def contradiction_remedy(root: Path, file: Path) -> str:
    """What to do about a file of the metadata whose content makes no sense."""
    if file.name in _COMPUTED:
        return f"Remove it, then statistics are computed: rm {shlex.quote(str(file))}"
    return f"Correct it, or repair a copy: {repair_command(root)}"
