"""Finds scripts without a main guard: worker processes import the script and would run it again."""

import ast
import sys
from functools import cache
from pathlib import Path
from types import FrameType

from manyhands.errors import UserError

GUARD = 'if __name__ == "__main__":'


def refuse_unguarded_script() -> None:
    """Raise if the script that is running calls this outside a main guard."""
    frame = _script_frame()
    if frame is None or _is_guarded(Path(frame.f_code.co_filename), frame.f_lineno):
        return
    raise UserError(
        f"{frame.f_code.co_filename}, line {frame.f_lineno}: loader processes import this file and "
        f"would run the line again. Put it below {GUARD}"
    )


def _script_frame() -> FrameType | None:
    """The frame of the script's top level; None in notebooks, shells and other threads."""
    script = vars(sys.modules["__main__"])
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals is script and frame.f_code.co_name == "<module>":
            return frame
        frame = frame.f_back
    return None


@cache
def _is_guarded(file: Path, line: int) -> bool:
    """Whether a line of a file is inside an `if` on `__name__`; true if that cannot be known."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return True
    around = [each for each in tree.body if each.lineno <= line <= (each.end_lineno or line)]
    tests = [each.test for each in around if isinstance(each, ast.If)]
    names = [node.id for test in tests for node in ast.walk(test) if isinstance(node, ast.Name)]
    return not around or "__name__" in names
