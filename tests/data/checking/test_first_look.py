"""A first verdict."""

from manyhands.data.checking.first_look import first_look


def test_a_good_dataset_is_told_so(source_of, tiny_root):
    look = first_look(source_of(tiny_root))
    assert (look.num_files, look.num_decoded, look.num_cameras) == (2, 2, 2)
    assert look.text.endswith(
        "2 files, first and last images of 2 of 2 camera files; nothing bad so far"
    )


def test_missing_files_are_named_at_once(source_of, tiny_root):
    (video,) = tiny_root.glob("videos/**/*.mp4")
    video.unlink()
    look = first_look(source_of(tiny_root))
    assert look.num_decoded == 1
    assert "1 fault, the first: episodes 0 to 1: videos/" in look.text


def test_no_more_is_decoded_after_the_deadline(source_of, tiny_roots):
    look = first_look(source_of(tiny_roots[1]), deadline_s=0.0)
    assert look.num_decoded == 0 and look.num_cameras == 4
