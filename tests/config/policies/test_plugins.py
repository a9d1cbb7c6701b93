"""Entry points of other packages, good and broken, as an installer leaves them on the path."""

import pytest

from manyhands.config.policies.registry import installed

GROUP = "manyhands.tests"
MODULE = "size = 3\n"
POINTS = f"""[{GROUP}]
good = plugin_of_a_test:size
gone = plugin_of_a_test:width
absent = no_such_module_at_all:size
wrong = broken_plugin_of_a_test:size
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    (tmp_path / "plugin_of_a_test.py").write_text(MODULE)
    (tmp_path / "broken_plugin_of_a_test.py").write_text("size = = 3\n")
    info = tmp_path / "plugin_of_a_test-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin-of-a-test\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(tmp_path)


def test_what_can_be_loaded_is_there_and_what_cannot_is_explained(package):
    plugins = installed(GROUP)
    assert plugins.found == {"good": 3}
    assert plugins.broken.keys() == {"gone", "absent", "wrong"}
    for name, reason in (("gone", "AttributeError"), ("absent", "ModuleNotFound")):
        assert plugins.broken[name].startswith(f"{name} is in the package plugin-of-a-test")
        assert reason in plugins.broken[name]
    assert "SyntaxError" in plugins.broken["wrong"]


def test_a_group_that_nobody_adds_to_is_empty():
    plugins = installed("manyhands.nobody")
    assert plugins.found == plugins.broken == {}
