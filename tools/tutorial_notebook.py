"""Write examples/tutorial.ipynb: the tutorial's text, commands and Python as cells of a notebook.

Run `make docs`, or `python tools/tutorial_notebook.py`.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tutorial.md"
NOTEBOOK = ROOT / "examples" / "tutorial.ipynb"
BLOCK = re.compile(
    r"(?P<mark><!-- needs: [^\n]* -->\n)?```(?P<language>bash|python)\n(?P<code>.*?)```\n", re.S
)
# The page lies in docs, the notebook in examples; both are run from the root of the repository.
LINK = re.compile(r"\]\((?!https?:|#|\.\./)")
FROM_ROOT = """import os
from pathlib import Path

if not Path("recipes").is_dir():
    os.chdir("..")"""


def notebook() -> str:
    """The notebook as JSON."""
    document = {
        "cells": [with_id(cell, number) for number, cell in enumerate(cells())],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def cells() -> Iterator[dict[str, Any]]:
    """Yield the cells in the order of the page."""
    page = PAGE.read_text(encoding="utf-8")
    yield code_cell(FROM_ROOT)
    end = 0
    for block in BLOCK.finditer(page):
        yield from text_cells(page[end : block.start()])
        code, end = block["code"].rstrip("\n"), block.end()
        if block["mark"]:
            # What a notebook cannot run is shown as it is on the page.
            yield from text_cells(f"```{block['language']}\n{code}\n```")
        else:
            yield code_cell(f"%%bash\nset -e\n{code}" if block["language"] == "bash" else code)
    yield from text_cells(page[end:])


def text_cells(text: str) -> Iterator[dict[str, Any]]:
    """Yield a cell of text, if there is any."""
    if text.strip():
        moved = LINK.sub("](../docs/", text.strip())
        yield {"cell_type": "markdown", "metadata": {}, "source": moved.splitlines(keepends=True)}


def code_cell(code: str) -> dict[str, Any]:
    """A cell that runs."""
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": code.splitlines(keepends=True),
    }


def with_id(cell: dict[str, Any], number: int) -> dict[str, Any]:
    """The cell with an id, which the format asks for."""
    return {"id": f"cell-{number}", **cell}


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook(), encoding="utf-8")
    print(f"wrote {NOTEBOOK}")
