"""docs/cli.md is what the schema generates."""

from pathlib import Path
from types import SimpleNamespace

from manyhands.cli.main import COMMANDS
from manyhands.config.schema.decoding import flags_of


def test_the_page_is_what_the_generator_makes(reference: SimpleNamespace, root: Path) -> None:
    page = (root / "docs" / "cli.md").read_text(encoding="utf-8")
    assert page == reference.page(), "run `make docs` and commit docs/cli.md"


def test_every_command_has_one_chapter(reference: SimpleNamespace) -> None:
    names = [each.name for each in reference.COMMANDS]
    assert {name.split()[0] for name in names} == set(COMMANDS)
    assert len(set(names)) == len(names)


def test_every_flag_has_type_default_and_help(reference: SimpleNamespace) -> None:
    flags = [flag for each in reference.COMMANDS for flag in flags_of(each.config)]
    rows = {flag.name: reference.row(flag) for flag in flags}
    assert len(rows) > 200
    for name, row in rows.items():
        flag, kind, default, text = (cell.strip() for cell in row[1:-1].split(" | ", 3))
        assert flag == f"`--{name}`"
        assert kind, row
        assert text, row
        assert default or "text" in kind, row
