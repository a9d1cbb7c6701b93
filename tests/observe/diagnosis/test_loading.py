"""What makes loading faster depends on the loader and the cache that a run really has."""

import re
from typing import Any

import pytest
from diagnosis_cases import RUN, healthy_rows

from manyhands.config.schema.decoding import flags_of
from manyhands.config.train import TrainConfig
from manyhands.observe.diagnosis.advice import Diagnosis
from manyhands.observe.diagnosis.history import History
from manyhands.observe.diagnosis.loading import slow_data

NONE = {"where": "off", "capacity": 0.0, "filled": 0.0}
FULL = {"where": "disk", "capacity": 1.0, "filled": 1.0}
ONE_RANK = [{"rank": 0, "host": "node0"}]


def found_in(run: dict[str, Any], share: float = 0.44, utilization: float = 0.5) -> list[Diagnosis]:
    rows = healthy_rows(20)
    for row in rows:
        row["data_s"], row["gpu_utilization"] = share * row["step_s"], utilization
    return [*slow_data(History(run, rows, []))]


def run_with(
    cores: int, num_workers: int, frame_cache: Any = FULL, **settings: Any
) -> dict[str, Any]:
    """A run of one process, with what it resolved and with settings."""
    run = RUN | {"hardware": {"cores": cores}, "ranks": ONE_RANK}
    run |= {"loading": {"num_workers": num_workers, "frame_cache": frame_cache}}
    mode = {"cache": {"mode": "auto"}}
    return run | {"config": RUN["config"] | {"num_workers": None} | mode | settings}


def test_waiting_for_data_while_the_gpu_is_busy_costs_nothing():
    assert found_in(RUN, utilization=0.97) == []
    (found,) = found_in(RUN, utilization=0.85)
    assert found.severity == "note" and found.gain.startswith("up to 1.2x: 15%")


@pytest.mark.parametrize(
    ("cores", "current", "remedy"),
    [
        (192, 4, "Set --num_workers=8"),
        (16, 12, "Set --num_workers=15"),
        (16, 0, "Set --num_workers=2"),
        (16, 15, "Set a smaller --dataset.image_size, or use more cores per process"),
    ],
)
def test_loader_processes_are_doubled_as_far_as_cores_allow(cores, current, remedy):
    (found,) = found_in(run_with(cores, current))
    assert found.remedy == remedy


@pytest.mark.parametrize(
    ("cache", "settings", "flag"),
    [
        (NONE, {"mode": "off"}, "--cache.mode=auto"),
        ({"where": "ram", "capacity": 0.5, "filled": 0.5}, {"mode": "ram"}, "--cache.mode=auto"),
        (NONE, {"mode": "auto"}, "--cache.folder to"),
        ({"where": "disk", "capacity": 0.6, "filled": 0.6}, {"mode": "disk"}, "--cache.folder to"),
        (
            {"where": "disk", "capacity": 0.6, "filled": 0.6},
            {"mode": "auto", "max_disk": "1GiB"},
            "a larger --cache.max_disk",
        ),
        (FULL, {"mode": "auto"}, ""),
        (None, {"mode": "auto"}, ""),
        (None, {"mode": "off"}, ""),
    ],
)
def test_the_cache_is_proposed_only_where_it_lacks_frames(cache, settings, flag):
    (found,) = found_in(run_with(16, 4, cache, cache=settings))
    also = " and --num_workers=8" if flag else "--num_workers=8"
    assert found.remedy.startswith(f"Set {flag}") and found.remedy.endswith(also)
    known = {flag.name for flag in flags_of(TrainConfig)}
    assert set(re.findall(r"--([a-z_.]+[a-z])", found.remedy)) <= known


def test_a_policy_without_images_is_not_told_to_shrink_them():
    (found,) = found_in(run_with(4, 3, frame_cache=None))
    assert found.remedy == "Use more cores per process"


def test_the_gain_is_what_the_remedy_can_reach():
    # Of a step that waits nine tenths of its time, twice the processes save half.
    (found,) = found_in(run_with(192, 4), share=0.9, utilization=0.1)
    assert found.gain.startswith("up to 2.0x: 90%")
    (found,) = found_in(run_with(192, 4, NONE), share=0.9, utilization=0.1)
    assert found.gain.startswith("up to 10.0x: 90%")


def test_frames_that_are_decoded_in_the_first_epoch_only_are_a_note():
    filling = run_with(16, 4, FULL | {"filled": 0.1})
    filling |= {"batch": {"steps_per_epoch": 5000.5}, "budget": {"steps": 20_000}}
    (found,) = found_in(filling)
    assert found.severity == "note" and "all frames are cached at step 5,001" in found.text
    assert found.remedy == "Set --num_workers=8"
    (resumed,) = found_in(filling | {"resumed_at": 1000})
    assert "at step 10,001" in resumed.text
    two_hosts = [{"rank": 0, "host": "node0"}, {"rank": 1, "host": "node1"}]
    for change in (
        {"batch": {"steps_per_epoch": 1000}},
        {"budget": {"steps": 4000}},
        {"ranks": two_hosts},
    ):
        (found,) = found_in(filling | change)
        assert found.severity == "warning" and "cached" not in found.text


def test_runs_of_earlier_versions_are_judged_by_their_settings():
    old = {"hardware": {"cores": 16}, "ranks": ONE_RANK}
    (found,) = found_in(RUN | old)
    assert found.remedy == "Set --num_workers=8"
    config = RUN["config"] | {"num_workers": None, "cache": {"mode": "off"}}
    (found,) = found_in(RUN | old | {"config": config})
    assert found.remedy == "Set --cache.mode=auto"
