"""Video files of a dataset."""

import shutil

import av
import pytest

TOP = "observation.images.top"
FILE = f"videos/{TOP}/chunk-000/file-000.mp4"


def rewrite_video(path, change):
    """Mux the packets of a file anew; `change` gets and returns a list of them."""
    new = path.with_suffix(".new")
    with av.open(str(path)) as source, av.open(str(new), "w", format="mp4") as target:
        stream = source.streams.video[0]
        copy = target.add_stream_from_template(stream, opaque=True)
        for packet in change([packet for packet in source.demux(stream) if packet.size]):
            packet.stream = copy
            target.mux(packet)
    new.replace(path)


def zero_packet(path, number):
    """Overwrite the data of a frame."""
    with av.open(str(path)) as container:
        packet = [packet for packet in container.demux(video=0) if packet.size][number]
    content = bytearray(path.read_bytes())
    content[packet.pos + 4 : packet.pos + packet.size] = bytes(packet.size - 4)
    path.write_bytes(content)


def test_a_missing_file_makes_its_episodes_bad(check, damaged_root):
    (damaged_root / FILE).unlink()
    (found,) = check(damaged_root, thoroughness="quick").of_check("files")
    assert (found.episode, found.key, found.frames) == (0, TOP, (0, 3))
    assert f"{FILE} is missing" in found.text


@pytest.mark.parametrize("thoroughness", ["quick", "full"])
def test_a_short_file_is_bad_from_where_it_ends(check, tiny_root, thoroughness):
    rewrite_video(tiny_root / FILE, lambda packets: packets[:4])
    (found,) = check(tiny_root, thoroughness=thoroughness).of_check("videos")
    assert (found.episode, found.frames) == (1, (4, 6))
    assert "frames 1 to 2: no such frame" in found.message


def test_damage_in_the_middle_is_found_by_looking_at_all(check, plain_root, tmp_path):
    root = shutil.copytree(plain_root, tmp_path / "dataset")
    zero_packet(root / FILE, 7)
    (found,) = check(root).of_check("videos")
    assert (found.episode, found.severity, found.key) == (1, "bad", TOP)
    first, end = found.frames
    assert first <= 7 < end <= 8
    assert check(root, thoroughness="quick").is_usable


def test_damage_at_an_end_is_found_by_a_quick_look(check, tiny_root):
    zero_packet(tiny_root / FILE, 5)
    assert check(tiny_root, thoroughness="quick").bad_episodes == [1]


def test_damage_to_episodes_nobody_chose_does_no_harm(check, tiny_root):
    zero_packet(tiny_root / FILE, 5)
    assert check(tiny_root, [0]).is_usable


def test_cameras_nobody_asks_for_are_left_alone(check, tiny_root):
    (tiny_root / FILE).unlink()
    assert check(tiny_root, keys=["observation.state"]).is_usable


def test_another_rate_is_told(check, tiny_root):
    def slower(packets):
        for packet in packets:
            packet.pts, packet.dts = packet.pts * 2, packet.dts * 2
        return packets

    rewrite_video(tiny_root / FILE, slower)
    found = check(tiny_root).of_check("videos")
    assert {each.severity for each in found} == {"bad", "warning"}
    assert "fps, but the dataset has 10 fps" in found[-1].message


def test_uneven_frames_are_told(check, tiny_root):
    def late(packets):
        packets[-1].pts += packets[1].pts // 10
        packets[-1].dts = packets[-1].pts
        return packets

    rewrite_video(tiny_root / FILE, late)
    result = check(tiny_root)
    assert result.is_usable
    assert "not evenly spaced" in result.of_check("videos")[0].message or (
        "fps, but" in result.of_check("videos")[0].message
    )


def test_another_format_than_declared_is_worth_a_warning(check, tiny_root, change_json):
    def declare(info):
        info["features"][TOP]["info"]["video.codec"] = "hevc"

    change_json(tiny_root / "meta/info.json", declare)
    (found,) = check(tiny_root).of_check("videos")
    assert found.severity == "warning"
    assert "meta/info.json declares hevc" in found.message


def test_another_size_than_declared_is_bad(check, tiny_root, change_json):
    def declare(info):
        info["features"][TOP]["shape"] = [16, 32, 3]

    change_json(tiny_root / "meta/info.json", declare)
    result = check(tiny_root, thoroughness="quick")
    assert result.bad_episodes == [0, 1]
    assert "3x16x16" in result.of_check("videos")[0].message
