"""Finding datasets."""

import os
import stat
from pathlib import Path

import pytest
from huggingface_hub import constants

from manyhands.data.dataset import open_dataset
from manyhands.data.location import default_home, locate_dataset, shared_home
from manyhands.errors import DatasetError


@pytest.fixture
def cache(plain_root, tmp_path):
    """A cache that holds the dataset me/plain."""
    (tmp_path / "me").mkdir()
    (tmp_path / "me" / "plain").symlink_to(plain_root)
    return tmp_path


@pytest.fixture
def offline(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def test_an_explicit_folder_wins(plain_root, cache):
    assert locate_dataset("me/plain", root=plain_root, cache_dir=cache) == plain_root


def test_a_recorded_dataset_is_found_in_the_cache(cache):
    assert locate_dataset("me/plain", cache_dir=cache) == cache / "me" / "plain"


def test_the_cache_is_in_the_hubs_home_by_default(cache, monkeypatch):
    (cache / "lerobot").symlink_to(cache)
    monkeypatch.setattr(constants, "HF_HOME", str(cache))
    assert locate_dataset("me/plain") == cache / "lerobot" / "me" / "plain"
    assert len(open_dataset("me/plain")) == 14


@pytest.mark.usefixtures("offline")
def test_a_downloaded_snapshot_is_found_without_a_network(plain_root, tmp_path):
    repo = tmp_path / "hub" / "datasets--me--hub"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "v3.0").write_text("abc")
    (repo / "snapshots").mkdir()
    (repo / "snapshots" / "abc").symlink_to(plain_root)
    assert locate_dataset("me/hub", cache_dir=tmp_path) == repo / "snapshots" / "abc"


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("revision", [None, "v3.1"])
def test_a_dataset_that_is_nowhere_comes_with_a_remedy(tmp_path, revision):
    with pytest.raises(
        DatasetError,
        match=r"me/absent( at v3\.1)? is not in .*HF_HUB_OFFLINE is set.*\n.*--dataset\.root=DIR",
    ):
        locate_dataset("me/absent", revision=revision, cache_dir=tmp_path)


@pytest.mark.usefixtures("offline")
def test_a_name_the_hub_could_not_have_is_refused(tmp_path):
    with pytest.raises(DatasetError, match="a/b/c"):
        locate_dataset("a/b/c", cache_dir=tmp_path)


def test_a_folder_without_a_dataset_is_named(tmp_path):
    with pytest.raises(DatasetError, match=r"is not a LeRobot dataset .*--dataset\.root=DIR"):
        locate_dataset(None, root=tmp_path)


def test_naming_nothing_is_refused():
    with pytest.raises(DatasetError, match="no dataset given"):
        open_dataset()


def test_the_nearest_name_of_the_shared_folder_wins():
    both = {"MANYHANDS_HOME": "/mine", "XDG_CACHE_HOME": "/cache"}
    assert default_home(both) == Path("/mine")
    assert default_home({"XDG_CACHE_HOME": "/cache"}) == Path("/cache/manyhands")
    assert default_home({}) == Path.home() / ".cache/manyhands"
    assert default_home({"MANYHANDS_HOME": "", "XDG_CACHE_HOME": "here"}) == default_home({})
    assert default_home({"MANYHANDS_HOME": "~/frames"}) == Path.home() / "frames"
    assert default_home({"MANYHANDS_HOME": "frames"}) == Path.cwd() / "frames"


@pytest.fixture
def fallback(monkeypatch, tmp_path):
    """The folder that takes the place of a home which cannot be written to."""
    monkeypatch.delenv("MANYHANDS_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert shared_home() == tmp_path / "manyhands"
    monkeypatch.setattr("os.access", lambda path, mode: False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path / f"manyhands-{os.getuid()}"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_home_that_cannot_be_written_to_is_replaced(fallback, capsys):
    assert shared_home() == fallback
    assert mode_of(fallback) == 0o700
    fallback.chmod(0o755)
    assert shared_home() == fallback
    assert mode_of(fallback) == 0o700
    assert capsys.readouterr().err == ""


def make_link(fallback: Path) -> None:
    (fallback.parent / "theirs").mkdir()
    fallback.symlink_to("theirs")


def make_dangling_link(fallback: Path) -> None:
    fallback.symlink_to("nowhere")


def make_open_folder(fallback: Path) -> None:
    fallback.mkdir()
    fallback.chmod(0o777)


@pytest.mark.parametrize(
    "occupy",
    [make_link, make_dangling_link, make_open_folder, Path.touch],
    ids=lambda f: f.__name__,
)
def test_a_fallback_that_others_control_is_not_used(fallback, occupy, capsys):
    occupy(fallback)
    home = shared_home()
    assert home.name.startswith("manyhands-") and home != fallback
    assert mode_of(home) == 0o700
    assert shared_home() == home
    assert os.environ["MANYHANDS_HOME"] == str(home)
    (told,) = capsys.readouterr().err.splitlines()
    assert str(fallback) in told and "MANYHANDS_HOME=DIR" in told


def test_a_fallback_of_another_owner_is_not_used(fallback, monkeypatch):
    monkeypatch.setattr("os.getuid", lambda: 12_345)
    theirs = fallback.with_name("manyhands-12345")
    theirs.mkdir(mode=0o700)
    assert shared_home() != theirs
