"""Where kept frames lie."""

import os
import platform
from collections import namedtuple
from pathlib import Path

import psutil
import pytest

from manyhands.data.cache import locations as root
from manyhands.data.cache.locations import (
    free_bytes,
    is_local,
    ram_folder,
    stores_folder,
    stores_folders,
)
from manyhands.data.cache.store_files import boot_id

Mount = namedtuple("Mount", "mountpoint fstype")


def test_memory_is_used_only_where_it_is_ours(tmp_path, monkeypatch):
    monkeypatch.setattr(root, "_SHARED_MEMORY", tmp_path / "none")
    assert ram_folder() is None
    monkeypatch.setattr(root, "_SHARED_MEMORY", tmp_path)
    home = ram_folder()
    assert home == tmp_path / f"manyhands-{os.getuid()}"
    assert home.stat().st_mode & 0o777 == 0o700
    home.rmdir()
    home.symlink_to(tmp_path / "elsewhere")
    assert ram_folder() is None
    home.unlink()
    (tmp_path / "elsewhere").mkdir()
    home.symlink_to(tmp_path / "elsewhere")
    assert ram_folder() is None
    home.unlink()
    home.mkdir()
    assert ram_folder() == home
    monkeypatch.setattr(os, "getuid", lambda: home.stat().st_uid)
    assert ram_folder() == home


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/me/.cache", True),
        ("/home/shared/me", False),
        ("/home/shared/scratch/me", True),
        ("/lustre/me", False),
        ("/covered/me", False),
    ],
)
def test_the_innermost_mount_says_whether_a_disk_is_local(monkeypatch, path, expected):
    mounts = [
        Mount("/", "ext4"),
        Mount("/home/shared", "nfs4"),
        Mount("/home/shared/scratch", "xfs"),
        Mount("/lustre", "lustre"),
        Mount("/covered", "ext4"),
        Mount("/covered", "nfs"),
    ]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: mounts)
    assert is_local(Path(path)) == expected


def test_pods_of_one_machine_find_each_others_stores(tmp_path, monkeypatch):
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: [Mount("/", "nfs4")])
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    folders = set()
    for name in ("trainer-abc12", "trainer-xyz98"):
        monkeypatch.setattr(platform, "node", lambda name=name: name)
        folders.add(stores_folder(tmp_path))
    assert folders == {tmp_path / f"frames-{boot_id()}"}


def test_machines_that_share_a_disk_have_stores_of_their_own(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert stores_folder(tmp_path) == tmp_path / "frames"
    stores_folder(tmp_path).mkdir()
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: [Mount("/", "nfs4")])
    ours = stores_folder(tmp_path)
    assert ours == tmp_path / f"frames-{platform.node()}"
    ours.mkdir()
    assert stores_folders(tmp_path) == sorted([tmp_path / "frames", ours])


def test_room_is_known_before_the_folder_is_there(tmp_path):
    assert free_bytes(tmp_path / "a" / "b") == pytest.approx(free_bytes(tmp_path), rel=0.1)
    assert free_bytes(tmp_path) > 0
