"""Small sources of batches; what a sample holds follows from its row."""

import os
import signal
import time
from dataclasses import dataclass

import numpy as np

from manyhands.data.batches import ArraySpec
from manyhands.data.loading.slots import Slots
from manyhands.errors import ConfigError, DatasetError

INT64, UINT8, BOOL = (np.dtype(kind) for kind in (np.int64, np.uint8, np.bool_))


@dataclass(frozen=True)
class Numbers:
    """Rows as numbers, pictures, masks and texts."""

    num_samples: int = 10
    side: int = 5

    def layout(self, num_samples: int) -> dict[str, ArraySpec]:
        """A byte array of odd size comes first, so that alignment is needed."""
        return {
            "picture": ArraySpec((num_samples, 3, self.side, self.side), UINT8),
            "index": ArraySpec((num_samples,), INT64),
            "is_odd": ArraySpec((num_samples, 1), BOOL),
            "state": ArraySpec((num_samples, 2), np.dtype(np.float32)),
        }

    def fill(self, rows: np.ndarray, arrays: dict[str, np.ndarray]) -> dict[str, list[object]]:
        """Write all, whatever was there before."""
        arrays["picture"][...] = (rows % 251)[:, None, None, None]
        arrays["index"][...] = rows
        arrays["is_odd"][...] = rows[:, None] % 2 == 1
        arrays["state"][...] = rows[:, None] / [1, 2]
        return {"task": [f"task {row}" for row in rows]}


@dataclass(frozen=True)
class Trouble(Numbers):
    """Numbers up to a row that cannot be read, each way in its own manner."""

    kind: str = "none"
    row: int = 0

    def fill(self, rows: np.ndarray, arrays: dict[str, np.ndarray]) -> dict[str, list[object]]:
        """Read, or fail."""
        if self.row not in rows:
            return super().fill(rows, arrays)
        match self.kind:
            case "damaged":
                raise DatasetError(f"row {self.row} is damaged; see\n  its file")
            case "faults":
                raise ConfigError(["one fault", "another"])
            case "bug":
                raise KeyError("what nobody expected")
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "timer":
                os.kill(os.getpid(), signal.SIGVTALRM)
            case "leave":
                os._exit(3)
            case "stuck":
                time.sleep(600)
        return super().fill(rows, arrays)


class LongTexts(Numbers):
    """A text of a megabyte per sample."""

    def fill(self, rows: np.ndarray, arrays: dict[str, np.ndarray]) -> dict[str, list[object]]:
        """Leave the arrays alone."""
        return {"task": [str(row) * 1_000_000 for row in rows]}


def write(slots: Slots, slot: int, value: int) -> None:
    """Fill all there is in a slot."""
    slots.rows(slot)[...] = value
    for array in slots.arrays(slot).values():
        array[...] = value
