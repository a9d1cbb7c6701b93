"""Files that hold images, complete and split."""

import pytest

from manyhands.data.checking.cameras import CameraFile
from manyhands.data.checking.check import files_to_check


@pytest.fixture(params=["videos", "images"])
def file(request, source_of, plain_root):
    source = source_of(plain_root)
    found = files_to_check(source, source.meta.info.features, True)
    by_check = dict(zip(["videos", "images"], list(found)[1:], strict=True))
    assert isinstance(by_check[request.param], CameraFile)
    return request.param, by_check[request.param]


def test_parts_show_every_episode_once_and_cost_less(file):
    _, whole = file
    parts = whole.split(whole.cost_s / 3)
    stretches = [stretch for part in parts for stretch in part.part.stretches]
    assert len(parts) > 1
    assert stretches == list(whole.part.stretches)
    assert sum(part.num_frames for part in parts) == whole.num_frames
    assert all(part.cost_s < whole.cost_s for part in parts)


def test_a_good_file_has_nothing_to_report(file):
    _, whole = file
    assert not whole.report().findings


def test_a_lost_file_takes_its_episodes_along(file):
    check, whole = file
    findings = whole.lost("its process died").findings
    assert {(found.check, found.key) for found in findings} == {(check, whole.camera.key)}
    assert {found.episode for found in findings} == {0, 1, 2}
