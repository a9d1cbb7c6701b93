"""A missing package is named with the command that installs it."""

import pytest

from manyhands.data.importing.packages import required
from manyhands.errors import EnvironmentFault


def test_an_installed_package_is_returned():
    assert required("json", "reading").loads("1") == 1


def test_a_missing_package_is_named_with_its_command():
    told = r"reading X needs the package nowhere_here. Install: pip install 'manyhands\[import\]'"
    with pytest.raises(EnvironmentFault, match=told) as caught:
        required("nowhere_here.inner", "reading X")
    assert caught.value.exit_code == 2


def test_what_a_package_itself_lacks_is_no_fault_of_the_user(tmp_path, monkeypatch):
    (tmp_path / "broken_here.py").write_text("import nowhere_here")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError):
        required("broken_here", "reading")
