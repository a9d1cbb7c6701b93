"""What was looked at, in words."""

import shutil

import pytest

from manyhands.data.checking.finding import CHECKS, counted


def test_every_check_tells_what_it_looked_at(check, plain_root):
    result = check(plain_root, [0, 2])
    scope = result.looked_at
    assert sorted(scope) == sorted(CHECKS)
    assert scope["episodes"] == "2 episodes, 11 frames"
    assert scope["files"] == "1 data file, 1 video file"
    assert scope["videos"] == "1 camera, 11 frames"
    assert scope["tasks"] == "3 tasks"
    assert result.incomplete == ()


def test_a_quick_look_is_told_as_such(check, plain_root):
    keys = ("observation.image", "action")
    scope = check(plain_root, keys=keys, thoroughness="quick").looked_at
    assert scope["images"] == "1 camera, 6 frames, the first and last of each episode"
    assert scope["videos"] == "none"
    assert scope["files"] == "1 data file"


def test_nothing_is_fine_that_could_not_be_looked_at(check, tiny_root):
    for folder in ("data", "videos"):
        shutil.rmtree(tiny_root / folder)
    result = check(tiny_root)
    assert result.looked_at["files"] == "0 of 1 data file, 0 of 1 video file"
    states = {name: result.state_of(name) for name in CHECKS}
    for name in ("columns", "numbering", "timestamps", "tasks", "numbers", "videos", "images"):
        assert states[name] == "skipped"
    assert states["files"] == "bad"


def test_counts_are_those_of_decoded_frames(check, tiny_roots, tmp_path, rewrite):
    root = shutil.copytree(tiny_roots[1], tmp_path / "apart")
    videos = sorted(root.glob("videos/**/*.mp4"))
    videos[0].unlink()
    tables = sorted(root.glob("data/**/*.parquet"))
    rewrite(
        tables[1],
        "observation.image",
        lambda own: [each | {"bytes": b"?"} if n == 1 else each for n, each in enumerate(own)],
    )
    result = check(root)
    assert result.looked_at["videos"] == "1 camera, 3 of 6 frames"
    assert result.state_of("videos") == "incomplete"
    assert result.looked_at["images"] == "1 camera, 5 of 6 frames"
    assert result.looked_at["files"] == "2 data files, 1 of 2 video files"
    assert result.looked_at["numbering"] == "6 frames"


@pytest.mark.parametrize(("number", "text"), [(1, "1 file"), (12345, "12,345 files")])
def test_numbers_of_things_are_told_with_their_noun(number, text):
    assert counted(number, "file") == text
