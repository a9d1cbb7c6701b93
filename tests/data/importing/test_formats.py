"""Formats are recognized by what files hold."""

import h5py
import pytest

from manyhands.config.commands.convert import IMPORT_FORMATS
from manyhands.data.importing.formats import FORMATS, detect_format, open_import_source
from manyhands.errors import DatasetError


@pytest.mark.parametrize(
    "name", ["robomimic", "aloha", "zarr", "zarr, zipped", "rlds", "csv", "csv, folders"]
)
def test_every_format_is_recognized_and_opened(written, name):
    path = written(name)
    expected = name.partition(",")[0]
    assert detect_format(path) == expected
    assert open_import_source(path).format == expected
    assert open_import_source(path, expected).num_episodes == 3


def test_the_flag_knows_every_format():
    assert tuple(FORMATS) == IMPORT_FORMATS


def test_what_is_unknown_is_told_with_the_known(tmp_path, plain_root):
    (tmp_path / "a.bag").write_bytes(b"")
    with pytest.raises(DatasetError, match=r"a.bag is of no known format. Known are: robomimic"):
        open_import_source(tmp_path / "a.bag")
    with pytest.raises(DatasetError, match="nowhere does not exist"):
        open_import_source(tmp_path / "nowhere")
    with pytest.raises(DatasetError, match=r"is a LeRobot dataset. Convert it with --dataset.root"):
        open_import_source(plain_root)
    for name, message in (("rlds", "must contain one features.json"), ("csv", "no CSV file")):
        with pytest.raises(DatasetError, match=message):
            open_import_source(tmp_path, name)


def test_another_layout_of_hdf5_is_told_with_its_content(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["poses"] = [1]
    with pytest.raises(DatasetError, match=r"a.h5 holds poses: neither data/demo_N/actions"):
        open_import_source(tmp_path / "a.h5")
