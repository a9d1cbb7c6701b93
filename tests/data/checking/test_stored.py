"""Images stored in data files."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhands.data.images.image_files import decode_image, encode_png

KEY = "observation.image"
FILE = "data/chunk-000/file-000.parquet"


def change_picture(path, row, change):
    """Change the bytes of one stored picture."""
    table = pq.read_table(path)
    values = table[KEY].to_pylist()
    values[row] = change(values[row])
    column = pa.array(values, table[KEY].type)
    pq.write_table(table.set_column(table.column_names.index(KEY), KEY, column), path)


def flipped(picture):
    """A picture with one bit of its pixels flipped."""
    content = bytearray(picture["bytes"])
    content[content.index(b"IDAT") + 30] ^= 1
    return {**picture, "bytes": bytes(content)}


def test_a_flipped_bit_of_a_png_is_found(check, tiny_root):
    change_picture(tiny_root / FILE, 4, flipped)
    (found,) = check(tiny_root).of_check("images")
    assert (found.episode, found.key, found.frames) == (1, KEY, (4, 5))
    assert found.message.startswith("frame 1: ")
    assert check(tiny_root, thoroughness="quick").is_usable


@pytest.mark.parametrize("row", [0, 5])
def test_a_quick_look_sees_the_first_and_last_of_each_episode(check, tiny_root, row):
    change_picture(tiny_root / FILE, row, flipped)
    assert check(tiny_root, thoroughness="quick").bad_episodes == [row // 3]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda _: None, "no image"),
        (lambda picture: {**picture, "bytes": b"text"}, "not PNG, JPEG or TIFF"),
        (lambda picture: {**picture, "bytes": picture["bytes"][:60]}, ""),
        (lambda picture: {**picture, "bytes": encode_png(np.zeros((8, 9, 3), "u1"))}, "3x8x9"),
    ],
)
def test_what_is_no_such_picture_is_told(check, tiny_root, change, told):
    change_picture(tiny_root / FILE, 1, change)
    (found,) = check(tiny_root).of_check("images")
    assert found.frames == (1, 2)
    assert told in found.message


def test_a_damaged_row_group_is_bad_as_a_whole(check, plain_root, tmp_path):
    root = shutil.copytree(plain_root, tmp_path / "dataset")
    path = root / FILE
    footer = pq.read_metadata(path)
    names = [footer.row_group(1).column(i).path_in_schema for i in range(footer.num_columns)]
    column = footer.row_group(1).column(names.index(f"{KEY}.bytes"))
    content = bytearray(path.read_bytes())
    content[column.dictionary_page_offset + 60] ^= 1
    path.write_bytes(content)
    (found,) = check(root).of_check("images")
    assert (found.episode, found.frames) == (1, (5, 8))
    assert f"{FILE} is damaged" in found.text


def test_strict_decoding_is_a_choice():
    picture = encode_png(np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8))
    assert np.array_equal(decode_image(picture), decode_image(picture, is_strict=True))
    crc_of_pixels = picture.index(b"IEND") - 8
    damaged = bytearray(picture)
    damaged[crc_of_pixels] ^= 1
    assert np.array_equal(decode_image(picture), decode_image(bytes(damaged)))
    with pytest.raises(ValueError):
        decode_image(bytes(damaged), is_strict=True)
