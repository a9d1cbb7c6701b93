"""Folders under another name."""

from manyhands.lerobot_format.dataset.moved_folders import move_command, moved_folders


def plant(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"x")


def test_the_folder_that_has_the_file_is_the_moved_one(tmp_path):
    plant(tmp_path, "video/top/a.mp4", "meta/info.json", "other/top/b.mp4")
    found = moved_folders(tmp_path, ["videos/top/a.mp4"], ["videos/top/a.mp4"])
    assert found == {tmp_path / "video": tmp_path / "videos"}


def test_a_camera_under_another_name_is_found_and_another_camera_is_not_taken(tmp_path):
    plant(tmp_path, "videos/side/a.mp4", "videos/cam/a.mp4")
    known = ["videos/top/a.mp4", "videos/side/a.mp4"]
    assert moved_folders(tmp_path, known[:1], known) == {}
    (tmp_path / "videos/side/a.mp4").unlink()
    found = moved_folders(tmp_path, known[:1], known)
    assert found == {tmp_path / "videos/cam": tmp_path / "videos/top"}


def test_files_that_are_nowhere_are_not_moved(tmp_path):
    assert moved_folders(tmp_path, ["videos/a.mp4"], ["videos/a.mp4"]) == {}
    assert moved_folders(tmp_path / "gone", ["videos/a.mp4"], []) == {}


def test_the_command_is_safe_for_a_shell(tmp_path):
    command = move_command({tmp_path / "my video": tmp_path / "videos"})
    assert command == f"mv '{tmp_path}/my video' {tmp_path}/videos"
