"""The page of a run that continues: built again when its files have changed."""

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manyhands.config.commands.eval import EVAL_INFO
from manyhands.config.runs.run_dir import LOCK
from manyhands.errors import UserError
from manyhands.evaluation.open_loop_run import ERRORS_FILE
from manyhands.observe.run_status import lock_holder
from manyhands.report.page import Page, require_report
from manyhands.report.runs.evaluations import files_named
from manyhands.report.runs.ranks import RANKS_FILE
from manyhands.report.runs.run_files import check_live_run, has_results, read_run_files
from manyhands.report.runs.run_page import build_page
from manyhands.report.runs.run_sections import NOTHING_MORE
from manyhands.report.runs.training_frames import TrainingFrames, training_frames

LEAST_PAUSE_S = 1.0
PAUSE_FACTOR = 10  # Times that building takes: the run beside it needs its cores

Stamp = tuple[tuple[str, int, int], ...]


class LivePage:
    """The newest page of a run, and what has changed since another."""

    def __init__(self, run_dir: Path, num_frames: int) -> None:
        require_report()
        check_live_run(run_dir)
        self._run_dir = run_dir
        self._num_frames = num_frames
        self._lock = threading.Lock()
        self._frames: TrainingFrames | None = None
        self._page: Page | None = None
        self._stamp: Stamp = ()
        self._next_s = 0.0

    def html(self) -> str:
        """The complete page."""
        return self._newest().html(is_live=True)

    def changes(self, known: Mapping[str, str]) -> dict[str, Any]:
        """Sections that are not of the known versions; `reload` if there are others than known."""
        page = self._newest()
        if {each.anchor for each in page.sections} != known.keys():
            return {"reload": True}
        changed = [each for each in page.sections if known[each.anchor] != each.version]
        return {"sections": {each.anchor: each.element for each in changed}}

    def _newest(self) -> Page:
        with self._lock:
            stamp, start = self._files_stamp(), time.monotonic()
            if self._page is not None and (stamp == self._stamp or start < self._next_s):
                return self._page
            page = self._page = self._rebuilt()
            self._stamp, end = stamp, time.monotonic()
            self._next_s = end + max(LEAST_PAUSE_S, PAUSE_FACTOR * (end - start))
            return page

    def _rebuilt(self) -> Page:
        """A new page; the last one if the files of the run were removed."""
        if self._page is None:
            return self._built()
        try:
            return self._built() if has_results(self._run_dir) else self._page
        except (UserError, OSError):
            # They are just being removed.
            return self._page

    def _built(self) -> Page:
        files = read_run_files(self._run_dir)
        # The dataset does not change while it is trained on: it is read once.
        if self._frames is None and self._num_frames and files.run:
            self._frames = training_frames(files.run, self._num_frames)
        return build_page([files], NOTHING_MORE, self._frames)

    def _files_stamp(self) -> Stamp:
        """Sizes and times of all files that the page is made of, and whether the run continues."""
        files = [self._run_dir / name for name in ("run.json", "metrics.jsonl", RANKS_FILE)]
        for name in (EVAL_INFO, ERRORS_FILE):
            files += files_named(self._run_dir, name)
        # A run that is killed changes no file.
        found = [(LOCK, int(lock_holder(self._run_dir) is not None), 0)]
        for file in files:
            try:
                status = file.stat()
            except OSError:
                continue
            found.append((str(file), status.st_mtime_ns, status.st_size))
        return tuple(found)
