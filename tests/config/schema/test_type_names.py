"""Names of types for users."""

from pathlib import Path

import pytest

from manyhands.config.schema.type_names import type_name


@pytest.mark.parametrize(
    ("hint", "name"),
    [
        (int, "an integer"),
        (int | None, "an integer or null"),
        (Path | None, "a path or null"),
        (list[int] | None, "a list such as [0,1,2] or null"),
        (dict[str, float], "a mapping such as {name: value}"),
    ],
)
def test_types_have_names_that_users_know(hint, name):
    assert type_name(hint) == name
