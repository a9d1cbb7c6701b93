"""Each cause of lost speed is found with its flag, and with the gain that the rows show."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from diagnosis_cases import RUN, healthy_rows, rank_rows

from manyhands.config.schema.decoding import flags_of
from manyhands.config.train import TrainConfig
from manyhands.observe.diagnosis.bottlenecks import bottlenecks, round_up
from manyhands.observe.diagnosis.history import History

Row = dict[str, Any]


def slow_data(row: Row) -> None:
    row["data_s"] = 0.44 / 0.56 * row["step_s"]
    row["step_s"] += row["data_s"]
    row["gpu_utilization"] *= 0.56


def saving(row: Row) -> None:
    row["checkpoint_s"] = row["step_s"]
    row["step_s"] *= 2


def waiting_for_gradients(row: Row) -> None:
    row["communication_s"] = row["step_s"]
    row["step_s"] *= 2


def idle(row: Row) -> None:
    row["gpu_utilization"] = 0.4


def full(row: Row) -> None:
    row["gpu_memory_share"] = 0.97


def found_in(
    change: Callable[[Row], None], run: Row | None = None, num_rows: int = 20
) -> list[tuple[str, str, str, str]]:
    rows = healthy_rows(num_rows)
    for row in rows:
        change(row)
    found = bottlenecks(History(run or RUN, rows, rank_rows(rows)))
    return [(each.kind, each.severity, each.remedy, each.gain) for each in found]


@pytest.mark.parametrize(
    ("change", "kind", "severity", "flag", "gain"),
    [
        (slow_data, "decode_bound", "warning", "--num_workers=7", "x: 4"),
        (saving, "checkpoint_bound", "warning", "--save_freq=3000", "up to 2.0x: 5"),
        (
            waiting_for_gradients,
            "communication_bound",
            "warning",
            "--accelerator.ddp.gradient_compression=bf16",
            "up to 1.3x: half of the 50%",
        ),
        (idle, "launch_bound", "warning", "--batch_size=16", "up to 2.0x samples per second"),
        (
            full,
            "memory_nearly_full",
            "note",
            "--batch_size=4 --global_batch_size=16",
            "same effective",
        ),
    ],
)
def test_one_cause_is_found_alone(change, kind, severity, flag, gain):
    ((found, how, remedy, expected),) = found_in(change)
    assert (found, how) == (kind, severity)
    assert flag in remedy and gain in expected


def test_remedies_fit_the_settings_of_the_run():
    eager = {**RUN, "config": {**RUN["config"], "step": {"mode": "eager"}}}
    ((_, _, remedy, _),) = found_in(idle, eager)
    assert remedy == "Set --step.mode=auto"
    # Steps of sharded weights run eagerly in any mode.
    ((_, _, remedy, _),) = found_in(idle, {**RUN, "step_mode": "eager"})
    assert remedy == "Set --batch_size=16"


def test_a_wait_for_gradients_is_halved_by_a_larger_step_of_this_run():
    ddp = {"accelerator": {"ddp": {"gradient_compression": "bf16"}}}
    config = {**RUN["config"], **ddp, "global_batch_size": 16}
    ((_, _, remedy, _),) = found_in(waiting_for_gradients, {**RUN, "config": config})
    assert remedy == "Set --global_batch_size=32: the effective batch grows from 16 to 32"


def test_a_slow_rank_is_named_with_its_host_gpu_and_phase():
    rows = healthy_rows(20)
    ranks = rank_rows(rows, num_ranks=4)
    for row in ranks:
        if row["rank"] == 2:
            row |= {"host": "node1", "gpu": "A100", "communication_s": 0.0}
            row["forward_s"] = 0.7 * row["step_s"]
        else:
            row["communication_s"] = 0.5 * row["step_s"]
    (found,) = bottlenecks(History(RUN, rows, ranks))
    assert (found.kind, found.severity) == ("straggler", "warning")
    assert "rank 2 (node1, A100)" in found.text and "is in forward" in found.text
    assert "--launch.gpu_ids" in found.remedy and found.gain.startswith("up to 2.0x")
    on_cpu = [row | {"gpu": None} for row in ranks]
    (found,) = bottlenecks(History(RUN, rows, on_cpu))
    assert "another program on its host" in found.remedy and "gpu" not in found.remedy


def test_a_rank_that_waits_for_its_data_is_one_slow_rank():
    rows = healthy_rows(20)
    for row in rows:
        row["data_s"] = 0.5 * row["step_s"]
    ranks = rank_rows(rows)
    for row in ranks:
        row["communication_s"] = 0.0 if row["rank"] == 1 else 0.5 * row["step_s"]
        row["data_s"] = 0.5 * row["step_s"] if row["rank"] == 1 else 0.0
    (found,) = bottlenecks(History(RUN, rows, ranks))
    assert found.kind == "straggler" and "is in data" in found.text
    assert "--num_workers" in found.remedy


def test_ranks_without_measured_communication_are_not_compared():
    rows = healthy_rows(20)
    ranks = rank_rows(rows)
    for row in ranks:
        del row["communication_s"]
        row["forward_s"] *= 1 + row["rank"]
    assert [*bottlenecks(History(RUN, rows, ranks))] == []


def test_processes_on_one_cpu_do_not_wait_for_a_network():
    ranks = [{"rank": rank, "host": "node0", "device": "cpu:0"} for rank in (0, 1)]
    assert found_in(waiting_for_gradients, RUN | {"ranks": ranks}) == []
    apart = [{**rank, "host": f"node{rank['rank']}"} for rank in ranks]
    assert found_in(waiting_for_gradients, RUN | {"ranks": apart})[0][0] == "communication_bound"


def test_host_memory_is_watched_too():
    rows = [{**row, "host_memory_bytes": 63 << 30} for row in healthy_rows(20)]
    (found,) = bottlenecks(History(RUN, rows, []))
    assert found.kind == "memory_nearly_full" and "--max_ram" in found.remedy


def test_every_flag_in_a_remedy_exists():
    known = {flag.name for flag in flags_of(TrainConfig)}
    for change in (slow_data, saving, waiting_for_gradients, idle, full):
        for _, _, remedy, _ in found_in(change):
            named = re.findall(r"--([a-z_.]+[a-z])", remedy)
            assert named and set(named) <= known, remedy


@pytest.mark.parametrize(("number", "rounded"), [(1, 1), (19, 20), (20, 20), (2310, 3000)])
def test_proposed_periods_are_round(number, rounded):
    assert round_up(number) == rounded
