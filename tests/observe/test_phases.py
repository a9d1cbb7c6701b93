"""Time of steps by phase."""

import time

import pytest
import torch

from manyhands.observe import phases as phases_module
from manyhands.observe.phases import CopyTimer, DevicePhases, HostPhases, build_phases

gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]
SLEEPS = {"forward": 0.02, "backward": 0.04, "optimizer": 0.01}


def sleepy_step(phases: HostPhases) -> None:
    phases.start("forward")
    time.sleep(SLEEPS["forward"])
    phases.begin("backward")
    time.sleep(SLEEPS["backward"])
    phases.begin("optimizer")
    time.sleep(SLEEPS["optimizer"])
    phases.end()


def test_a_lap_has_the_mean_of_each_phase_and_nothing_between_steps():
    phases = build_phases(torch.device("cpu"))
    for _ in range(2):
        sleepy_step(phases)
        time.sleep(0.05)
    lap = phases.lap()
    assert set(lap) == set(SLEEPS)
    assert all(seconds <= lap[name] < seconds + 0.03 for name, seconds in SLEEPS.items())
    assert phases.lap() == {}


def test_a_phase_that_comes_twice_in_a_step_is_added_up():
    phases = HostPhases()
    phases.start("forward")
    for name in ("backward", "forward", "backward"):
        time.sleep(0.01)
        phases.begin(name)
    phases.end()
    assert phases.lap()["forward"] >= 0.02


def test_a_step_that_failed_on_the_way_spoils_no_other():
    phases = HostPhases()
    phases.start("forward")
    time.sleep(0.05)
    sleepy_step(phases)
    assert phases.lap()["forward"] < 0.05


def test_marking_a_phase_takes_microseconds():
    phases = HostPhases()
    begin = time.perf_counter()
    for _ in range(1000):
        phases.start("forward")
        for name in ("backward", "communication", "optimizer"):
            phases.begin(name)
        phases.end()
    assert (time.perf_counter() - begin) / 1000 < 50e-6


def test_without_a_step_or_a_copy_there_is_no_time():
    assert DevicePhases().lap() == CopyTimer().lap() == {}


class Recorded:
    """A CUDA event of a device that works for one second between two records."""

    def __init__(self, device: list[float]) -> None:
        self._device = device
        self._at = 0.0

    def record(self) -> None:
        self._device[0] += 1
        self._at = self._device[0]

    def query(self) -> bool:
        return self._device[0] < 1000

    def elapsed_time(self, end: "Recorded") -> float:
        return 1e3 * (end._at - self._at)


def test_every_step_of_a_device_records_the_same_events(monkeypatch):
    device, made = [0.0], []
    monkeypatch.setattr(
        phases_module, "timed_event", lambda external: made.append(Recorded(device)) or made[-1]
    )
    phases = DevicePhases()
    for number in range(3):
        phases.start("forward")
        if number == 1:
            continue  # A step whose capture failed.
        for name in ("backward", "communication", "forward", "backward", "optimizer"):
            phases.begin(name)
        phases.end()
        expected = {"forward": 2.0, "backward": 2.0, "communication": 1.0, "optimizer": 1.0}
        assert phases.lap() == expected
    assert len(made) == 7
    device[0] = 1000
    assert phases.lap() == {}


class TestOnAGpu:
    """What only a real device can show."""

    pytestmark = gpu

    @staticmethod
    def busy_step(phases: DevicePhases) -> None:
        phases.start("forward")
        torch.cuda._sleep(10_000_000)
        phases.begin("backward")
        torch.cuda._sleep(30_000_000)
        phases.end()

    @pytest.mark.parametrize("captured", [False, True])
    def test_phases_are_those_of_the_last_step_in_a_graph_too(self, captured):
        phases = build_phases(torch.device("cuda"))
        self.busy_step(phases)
        torch.cuda.synchronize()
        first = phases.lap()
        step = lambda: self.busy_step(phases)  # noqa: E731
        if captured:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
            step = graph.replay
        for _ in range(3):
            torch.cuda._sleep(50_000_000)
            step()
            torch.cuda.synchronize()
            lap = phases.lap()
            assert set(lap) == {"forward", "backward"}
            assert lap["backward"] == pytest.approx(3 * lap["forward"], rel=0.2)
            assert lap["backward"] == pytest.approx(first["backward"], rel=0.5)

    def test_nothing_is_read_before_the_device_has_finished(self):
        phases = build_phases(torch.device("cuda"))
        self.busy_step(phases)
        torch.cuda._sleep(1000)
        torch.cuda.synchronize()
        torch.cuda._sleep(2_000_000_000)
        self.busy_step(phases)
        assert phases.lap() == {}
        torch.cuda.synchronize()
        assert set(phases.lap()) == {"forward", "backward"}
