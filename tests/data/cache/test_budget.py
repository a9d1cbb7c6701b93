"""Whether, where and how many frames are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.data.cache.budget import CacheRequest, CameraNeed, FreeSpace, free_space, plan_cache

GIB = 1024**3
TEN_GIB = (CameraNeed(num_frames=10 * 1024, frame_bytes=1024**2),)


def request(mode="auto", disk=0, ram=0, shared=None, **facts):
    room = FreeSpace(
        int(disk * GIB), int(ram * GIB), int((ram if shared is None else shared) * GIB)
    )
    return CacheRequest(mode=mode, cameras=facts.pop("cameras", TEN_GIB), free=room, **facts)


@pytest.mark.parametrize(
    ("asked", "where", "capacity"),
    [
        (request("off", disk=1000, ram=1000), "off", 0),
        (request(disk=40), "disk", 10240),
        (request(disk=39.96), "disk", 10229),
        (request(disk=20), "disk", 5120),
        (request(disk=19), "off", 0),
        (request(disk=19, ram=20), "ram", 10240),
        (request(disk=20, ram=20), "disk", 5120),
        (request(disk=19, ram=19), "off", 0),
        (request(disk=19, ram=40, shared=9), "off", 0),
        (request(disk=0, cached_bytes=5 * GIB), "disk", 5120),
        (request("disk", disk=4), "disk", 1024),
        (request("disk", disk=0), "off", 0),
        (request("disk", disk=100, max_disk=3 * GIB), "disk", 3072),
        (request("disk", disk=100, max_disk=3 * GIB, other_bytes=2 * GIB), "disk", 1024),
        (request("disk", disk=100, max_disk=3 * GIB, other_bytes=4 * GIB), "off", 0),
        (request("disk", disk=10, max_disk=300 * GIB), "disk", 9216),
        (request(disk=100, max_disk=0), "off", 0),
        (request(disk=100, ram=100, max_disk=0), "ram", 10240),
        (request("ram", disk=100, ram=4), "ram", 2048),
        (request("ram", ram=100, max_ram=3 * GIB), "ram", 3072),
        (request("ram", ram=2, max_ram=300 * GIB), "ram", 2048),
        (request("ram", ram=100, shared=0), "off", 0),
        (request(disk=100, ram=100, cameras=(CameraNeed(0, 5),)), "off", 0),
        (request(disk=40, all_or_nothing=True), "disk", 10240),
        (request(disk=39.96, all_or_nothing=True), "off", 0),
        (request("disk", disk=39.96, ram=20, all_or_nothing=True), "off", 0),
        (request(disk=39.96, ram=20, all_or_nothing=True), "ram", 10240),
        (request("ram", disk=40, ram=19, all_or_nothing=True), "off", 0),
    ],
)
def test_cases(asked, where, capacity):
    plan = plan_cache(asked)
    assert (plan.where, plan.capacities) == (where, (capacity,))
    assert sum(plan.max_bytes) >= capacity * asked.cameras[0].frame_bytes


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (
            request(disk=40),
            "on disk, 10.0 GiB of 10.0 GiB free",
        ),
        (
            request("ram", ram=4),
            "in memory, 20 % of frames: 10.0 GiB needed, 2.0 GiB free",
        ),
        (
            request(disk=2, ram=3),
            "off, frames are decoded every time: 10.0 GiB needed, 512.0 MiB free on disk, "
            "1.5 GiB in memory",
        ),
        (
            request("disk"),
            "off, frames are decoded every time: 10.0 GiB needed, 0 B free on disk",
        ),
        (request("off"), "off, frames are decoded every time: --cache.mode=off"),
        (request(cameras=()), "off, no camera frames"),
    ],
)
def test_the_reason_is_a_sentence_with_the_numbers(asked, reason):
    assert plan_cache(asked).reason == reason


def test_cameras_get_the_same_share_of_their_frames():
    cameras = (CameraNeed(1000, 900), CameraNeed(1000, 100))
    room = FreeSpace(disk_bytes=4 * 500_000, ram_bytes=0, shared_memory_bytes=0)
    plan = plan_cache(CacheRequest(mode="auto", cameras=cameras, free=room))
    assert plan.capacities == (500, 500)
    assert plan.max_bytes == (450_000, 50_000)


sizes = st.integers(0, 10**13)
limits = st.none() | sizes
requests = st.builds(
    CacheRequest,
    mode=st.sampled_from(["auto", "off", "ram", "disk"]),
    cameras=st.lists(
        st.builds(CameraNeed, st.integers(0, 10**7), st.integers(1, 10**6)), max_size=4
    ).map(tuple),
    free=st.builds(FreeSpace, sizes, sizes, sizes),
    cached_bytes=sizes,
    other_bytes=sizes,
    max_disk=limits,
    max_ram=limits,
)


@given(asked=requests)
def test_no_plan_exceeds_its_budget(asked):
    plan, room = plan_cache(asked), asked.free
    planned = sum(plan.max_bytes)
    assert len(plan.capacities) == len(plan.max_bytes) == len(asked.cameras)
    for camera, capacity in zip(asked.cameras, plan.capacities, strict=True):
        assert 0 <= capacity <= camera.num_frames
    if plan.where == "disk":
        assert asked.mode in ("auto", "disk")
        assert 0 < planned <= asked.cached_bytes + room.disk_bytes
        assert asked.max_disk is None or planned + asked.other_bytes <= asked.max_disk
    if plan.where == "ram":
        assert asked.mode in ("auto", "ram")
        assert 0 < planned <= min(room.ram_bytes, room.shared_memory_bytes)
        assert planned <= (room.ram_bytes / 2 if asked.max_ram is None else asked.max_ram)
    if plan.where == "off":
        assert planned == 0


@given(asked=requests)
def test_auto_keeps_at_least_half_or_nothing(asked):
    plan = plan_cache(asked)
    needed = sum(camera.num_bytes for camera in asked.cameras)
    if asked.mode == "auto" and plan.where != "off":
        slack = sum(camera.frame_bytes for camera in asked.cameras)
        assert sum(plan.max_bytes) + slack >= needed / (2 if plan.where == "disk" else 1)


def test_the_room_of_this_machine_is_measured(tmp_path):
    room = free_space(tmp_path / "later", None)
    assert room.disk_bytes > 0 and room.ram_bytes > 0 and room.shared_memory_bytes == 0
    assert free_space(tmp_path, tmp_path).shared_memory_bytes > 0
