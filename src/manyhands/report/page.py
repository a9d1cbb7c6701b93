"""A self-contained HTML page made of sections.

Styles, scripts, images and videos are in the file: it can be mailed, archived and opened offline.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b, sha256
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyhands.atomic import atomic_file
from manyhands.errors import UserError
from manyhands.os_errors import writing_remedy

if TYPE_CHECKING:
    from jinja2 import Environment

MAX_BYTES = 5_000_000
MARGIN = 100_000  # Bytes of markup around images and videos
NEEDS_EXTRA = "report.html needs an extra. Install: pip install 'manyhands[report]'"
FOLDER = "manyhands.report"


@dataclass(frozen=True)
class Section:
    """A piece of a page; the first one, the page's header, has no title."""

    anchor: str
    title: str
    html: str

    @property
    def version(self) -> str:
        """A short text that changes with the content."""
        return blake2b(self.html.encode("utf-8", "replace"), digest_size=8).hexdigest()

    @property
    def element(self) -> str:
        """The section as an element of a page."""
        return fragment("section", {"section": self})


@dataclass(frozen=True)
class Page:
    """Sections under a headline."""

    title: str
    sections: Sequence[Section]

    def html(self, is_live: bool = False) -> str:
        """The complete page; a live one asks its server for changes."""
        script = resource("page.js")
        return fragment(
            "page",
            {
                "page": self,
                "style": resource("page.css"),
                "script": script,
                "script_hash": b64encode(sha256(script.encode()).digest()).decode(),
                "is_live": is_live,
            },
        )


def report_available() -> str | None:
    """None if a report can be written, else a message that says what to install."""
    try:
        import_module("jinja2")
    except ImportError:
        return NEEDS_EXTRA
    return None


def require_report() -> None:
    """Raise a usage error if a report cannot be written."""
    missing = report_available()
    if missing:
        raise UserError(missing)


def section(anchor: str, title: str, template: str, content: dict[str, Any]) -> Section:
    """A section from a template."""
    return Section(anchor, title, fragment(template, content))


def bounded_sections(sections: Sequence[Section], max_bytes: int) -> list[Section]:
    """The same sections; of those that are too large together, the largest only by name."""
    kept = list(sections)
    while sum(len(each.html.encode("utf-8", "replace")) for each in kept) > max_bytes:
        largest = max(range(len(kept)), key=lambda place: len(kept[place].html))
        note = "Not shown: the page would exceed its size."
        kept[largest] = section(
            kept[largest].anchor, kept[largest].title, "notes", {"notes": [note]}
        )
    return kept


def write_page(page: Page, target: Path) -> None:
    """Write a page as one file."""
    html = page.html()
    try:
        with atomic_file(target) as scratch:
            scratch.write_text(html, encoding="utf-8", errors="replace")
    except OSError as error:
        remedy = writing_remedy(error, "Set --output=FILE in a writable folder")
        raise UserError(f"cannot write {target}: {error.strerror}. {remedy}") from None


def fragment(template: str, content: dict[str, Any]) -> str:
    """A template filled with content; text of the content is never markup."""
    return _environment().get_template(f"{template}.html").render(content)


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    return Environment(
        loader=FunctionLoader(lambda name: resource(f"templates/{name}")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def resource(name: str) -> str:
    """A file of this package."""
    return files(FOLDER).joinpath(name).read_text(encoding="utf-8")
