"""docs/api.md is what signatures and docstrings generate."""

import runpy
from pathlib import Path

import manyhands


def test_the_page_is_what_the_generator_makes(root: Path) -> None:
    generated = runpy.run_path(str(root / "tools" / "api_reference.py"))["page"]()
    page = (root / "docs" / "api.md").read_text(encoding="utf-8")
    assert page == generated, "run `make docs` and commit docs/api.md"


def test_every_public_name_has_a_chapter_with_words(root: Path) -> None:
    chapters = (root / "docs" / "api.md").read_text(encoding="utf-8").split("\n## manyhands.")[1:]
    assert {chapter.partition("\n")[0] for chapter in chapters} == {*manyhands.__all__}
    for chapter in chapters:
        words = [line for line in chapter.splitlines()[1:] if line and line[0].isalpha()]
        assert words, chapter
