"""What was looked at, in words."""

from manyhands.data.checking.finding import CHECKS, counted, describe_scope


def test_every_check_tells_what_it_looked_at(source_of, plain_root):
    source = source_of(plain_root, [0, 2])
    scope = describe_scope(source, tuple(source.meta.info.features), is_full=True)
    assert tuple(scope) == CHECKS
    assert scope["episodes"] == "2 episodes, 11 frames"
    assert scope["files"] == "1 data file, 1 video file"
    assert scope["videos"] == "1 camera, 11 frames"
    assert scope["tasks"] == "3 tasks"


def test_a_quick_look_is_told_as_such(source_of, plain_root):
    source = source_of(plain_root)
    scope = describe_scope(source, ("observation.image", "action"), is_full=False)
    assert scope["pictures"] == "1 camera, first and last frame of each episode"
    assert scope["videos"] == "none"
    assert scope["files"] == "1 data file"


def test_numbers_of_things_are_told_with_their_noun():
    assert counted(1, "file") == "1 file"
    assert counted(12345, "frame") == "12,345 frames"
