"""The version that files show."""

import pytest

from manyhands.lerobot_format import names
from manyhands.lerobot_format.dataset.version_evidence import settled_document

ALL = {key: {"dtype": dtype, "shape": [1]} for key, dtype in names.RESERVED_FEATURES.items()}


def plant(root, version):
    if version == "v2.1":
        (root / "meta").mkdir()
        (root / names.EPISODE_LINES_FILE).write_text("")
    else:
        (root / names.EPISODES_FOLDER).mkdir(parents=True)


@pytest.mark.parametrize(("declared", "found"), [("v3.0", "v2.1"), ("v2.1", "v3.0")])
def test_files_decide_the_version_and_its_paths(tmp_path, declared, found):
    plant(tmp_path, found)
    paths = {
        "v2.1": (names.V2_DATA_PATH, names.V2_VIDEO_PATH),
        "v3.0": (names.DATA_PATH, names.VIDEO_PATH),
    }
    document = {
        "codebase_version": declared,
        "data_path": paths[declared][0],
        "video_path": paths[declared][1],
        "features": ALL,
    }
    settled, notes = settled_document(tmp_path, document)
    assert settled["codebase_version"] == found
    assert (settled["data_path"], settled["video_path"]) == paths[found]
    assert len(notes) == 3 and declared in notes[0]


def test_what_fits_stays_as_it_is(tmp_path):
    plant(tmp_path, "v3.0")
    document = {"codebase_version": "v3.0", "data_path": "d/{file_index}", "features": ALL}
    assert settled_document(tmp_path, document) == (document, [])


@pytest.mark.parametrize("document", [{}, {"codebase_version": 7, "features": 3, "data_path": 1}])
def test_nonsense_is_left_to_the_reader(tmp_path, document):
    assert settled_document(tmp_path, document) == (document, [])


def test_features_that_every_dataset_has_are_added(tmp_path):
    absent = {key: each for key, each in ALL.items() if key != "index"}
    settled, notes = settled_document(tmp_path, {"features": absent})
    assert settled["features"]["index"]["dtype"] == "int64"
    assert notes == ["features does not declare index"]
