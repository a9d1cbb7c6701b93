"""Files and folders that cannot be written."""

from pathlib import Path

import pytest

from manyhands.config.paths.output import file_fault, folder_fault, json_faults

LONG = "x" * 300


def test_what_can_be_written_leaves_no_trace(tmp_path):
    assert folder_fault("--output_dir", tmp_path) is None
    assert folder_fault("--output_dir", tmp_path / "a" / "b") is None
    assert file_fault("--json", tmp_path / "a.json") is None
    assert json_faults(None) == json_faults(Path("/dev/null")) == []
    assert [*tmp_path.iterdir()] == []


def test_what_is_in_the_way_of_a_folder_is_named(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("gone")
    obstacles = {
        "file": f"{tmp_path / 'file'} is a file, not a folder",
        "file/run": f"{tmp_path / 'file'} is a file, not a folder",
        "link": f"{tmp_path / 'link'} is a link to gone, which does not exist",
    }
    for name, obstacle in obstacles.items():
        fault = f"--output_dir={tmp_path / name}: {obstacle}. Set another --output_dir"
        assert folder_fault("--output_dir", tmp_path / name) == fault


@pytest.mark.parametrize(
    ("name", "reason"), [(LONG, "File name too long"), ("a\0b", "embedded null byte")]
)
def test_names_that_no_file_can_have_are_refused(tmp_path, name, reason):
    for find, flag in ((folder_fault, "--output_dir"), (file_fault, "--json")):
        fault = f"cannot write {flag}={tmp_path / name}: {reason}. Set another {flag}"
        assert find(flag, tmp_path / name) == fault
    assert reason in str(folder_fault("--output_dir", tmp_path / "missing" / name))


def test_permissions_are_found_by_writing(tmp_path, as_nobody):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o755)
    with as_nobody():
        folder = folder_fault("--output_dir", closed / "run")
        file = file_fault("--json", closed / "a.json")
    end = "closed/{}: Permission denied. Set another {}"
    assert str(folder).endswith(end.format("run", "--output_dir"))
    assert str(file).endswith(end.format("a.json", "--json"))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="/proc is not available")
def test_folders_of_the_kernel_accept_nothing():
    assert "/proc accepts no new folders" in str(folder_fault("--output_dir", Path("/proc/run")))
    assert "/proc accepts no new files" in str(file_fault("--json", Path("/proc/a.json")))


def test_a_file_needs_a_folder_and_a_name(tmp_path):
    missing = tmp_path / "none"
    fault = f"folder {missing} does not exist. Create it: mkdir -p {missing}"
    assert fault in str(file_fault("--json", missing / "a.json"))
    assert "is a folder. Name a file in it" in str(file_fault("--json", tmp_path))
