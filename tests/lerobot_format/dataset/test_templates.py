"""Path templates are not to be trusted."""

from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.info import fill_template

NUMBERS = {"chunk_index": 1, "file_index": 2}


def test_the_templates_of_both_versions_are_filled_in():
    assert fill_template(names.DATA_PATH, NUMBERS) == "data/chunk-001/file-002.parquet"
    numbers = {"episode_chunk": 0, "episode_index": 12, "video_key": "top"}
    assert fill_template(names.V2_VIDEO_PATH, numbers) == "videos/chunk-000/top/episode_000012.mp4"
    assert fill_template("{file_index}-{file_index:6d}-{{x}}.mp4", NUMBERS) == "2-     2-{x}.mp4"


@pytest.mark.parametrize(
    "template",
    [
        "../{file_index}.parquet",
        "data/../../{file_index}.parquet",
        "/etc/passwd",
        "data\\..\\..\\x",
        "C:\\x",
        "c:x",
        "\\\\host\\x",
        "",
        "data/\0",
        "data/\n{file_index}",
        "data/\ud800",
    ],
)
def test_no_path_leads_out_of_the_folder(template):
    with pytest.raises(ValueError, match="leads out of the dataset folder"):
        fill_template(template, NUMBERS)


@pytest.mark.parametrize(
    "template",
    [
        None,
        3,
        ["data"],
        "{",
        "}",
        "{}",
        "{0}",
        "{episode_index}",
        "{file_index.real}",
        "{file_index.__class__.__mro__}",
        "{file_index[0]}",
        "{file_index!r}",
        "{file_index:>1000000000}",
        "{file_index:0999999999d}",
        "{file_index:{chunk_index}}",
        "{file_index:,}",
        "x" * 501,
    ],
)
def test_what_is_more_than_a_plain_template_is_refused(template):
    with pytest.raises(ValueError, match="cannot be filled in"):
        fill_template(template, NUMBERS)


@given(st.text(alphabet="{}:!./\\ab0019dfile_index\0", max_size=40))
def test_whatever_can_be_filled_in_stays_inside_the_folder(template):
    try:
        path = fill_template(template, {"file_index": 1})
    except ValueError:
        return
    for kind in (PurePosixPath, PureWindowsPath):
        assert not kind(path).anchor
        assert ".." not in kind(path).parts
