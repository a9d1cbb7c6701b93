"""Links, size and completeness of README, docs and CONTRIBUTING."""

import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"")
MAX_README_LINES = 150
MAX_IMAGE_BYTES = 200_000


def test_every_relative_link_and_anchor_resolves(pages: list[Any]) -> None:
    by_path = {page.path: page for page in pages}
    broken = []
    for page in pages:
        for link in links(page.prose):
            name, _, anchor = link.partition("#")
            target = (page.path.parent / name).resolve() if name else page.path
            if not target.exists():
                broken.append(f"{page.name}: {link}")
            elif anchor and anchor not in by_path[target].anchors:
                broken.append(f"{page.name}: {link} has no such heading")
    assert not broken, "\n".join(broken)


def links(prose: str) -> list[str]:
    found = (first or second for first, second in LINK.findall(re.sub(r"`[^`]*`", "", prose)))
    return [link for link in found if not link.startswith(("http:", "https:", "mailto:"))]


def test_the_readme_fits_its_budget(pages: list[Any]) -> None:
    assert len(pages[0].text.splitlines()) <= MAX_README_LINES


def test_every_page_is_listed_in_the_index(pages: list[Any], root: Path) -> None:
    index = (root / "docs" / "README.md").read_text(encoding="utf-8")
    names = [page.path.name for page in pages if page.path.parent.name == "docs"]
    missing = [name for name in names if name != "README.md" and f"({name})" not in index]
    assert not missing


def test_every_image_is_used_and_small(pages: list[Any], root: Path) -> None:
    text = "".join(page.text for page in pages)
    for image in (root / "docs" / "images").iterdir():
        assert f"images/{image.name}" in text, image
        assert image.stat().st_size < MAX_IMAGE_BYTES, image


def test_make_targets_exist(pages: list[Any], root: Path) -> None:
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    named = {
        word
        for page in pages
        for code in (*page.inline_code, *"".join(page.blocks("bash")).splitlines())
        if code.startswith("make ")
        for word in code.partition("#")[0].split()[1:]
        if "=" not in word and not word.startswith(("-", '"'))
    }
    assert named <= targets, named - targets
    assert {"test", "interop", "exactness", "docs"} <= named
