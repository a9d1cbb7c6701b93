"""From plain recordings to compiled ones, if they are faster."""

import threading
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import torch

from manyhands.training import rising
from manyhands.training.rising import Rising, is_compiling
from manyhands.training.update import Inputs, Measures

INPUTS = Inputs({"x": torch.ones(1)}, {})
MEASURES = Measures({}, torch.tensor(0.0), torch.tensor(False))


@dataclass
class Clock:
    """A time that only updates make pass."""

    now_s: float = 0.0

    def monotonic(self) -> float:
        return self.now_s


CLOCK = Clock()


@dataclass
class Paced:
    """Updates that take their time."""

    mode: str
    step_s: float
    works: bool = True
    num_made: int = 0
    num_forgotten: int = 0

    def __call__(self, inputs: Inputs, num_left: int) -> Measures:
        CLOCK.now_s += self.step_s
        self.num_made += 1
        return MEASURES

    def forget(self) -> None:
        self.num_forgotten += 1


class Alone:
    """A world of one rank."""

    device = torch.device("cpu")

    def gather(self, value: float) -> list[float]:
        return [value]

    def any(self, value: bool) -> bool:
        return value


@dataclass
class Compiler:
    """Compiles between two updates, or until it may end, or fails."""

    fault: str | None = None
    may_end: threading.Event | None = None
    num_calls: int = 0

    def compile_ahead(self, run: Any) -> None:
        self.num_calls += 1
        if self.may_end is not None:
            assert self.may_end.wait(60)
        if self.fault is not None:
            raise RuntimeError(self.fault)


@dataclass
class Setting:
    """A run that rises, and what was said."""

    graph: Paced
    compiled: Paced
    compiler: Compiler = field(default_factory=Compiler)
    told: list[str] = field(default_factory=list)

    def updates(self, number: int, num_left: int) -> Rising:
        work = cast(Any, type("Work", (), {"world": Alone(), "rehearse": print}))
        parts = cast(Any, (self.graph, self.compiled, self.compiler))
        run = Rising(*parts, work, self.told.append)
        for _ in range(number):
            run(INPUTS, num_left)
            if run._thread.is_alive() and self.compiler.may_end is None:
                run._thread.join()
        return run


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(rising, "time", CLOCK)
    monkeypatch.setattr(rising, "PERIOD", 5)
    monkeypatch.setattr(rising, "MIN_LEFT_S", 10.0)


def test_what_is_compiled_takes_over_where_it_is_faster():
    setting = Setting(Paced("graph", 0.004), Paced("compile", 0.001))
    assert setting.updates(60, 100_000).mode == "compile"
    assert setting.compiler.num_calls == 1 and setting.graph.num_forgotten == 1
    assert setting.graph.num_made + setting.compiled.num_made == 60
    (told,) = setting.told
    assert told.endswith("the run goes on compiled")


def test_what_is_not_faster_is_given_up():
    setting = Setting(Paced("graph", 0.001), Paced("compile", 0.004))
    assert setting.updates(60, 100_000).mode == "graph"
    assert setting.compiled.num_made > 0 and setting.compiled.num_forgotten == 1


def test_a_run_that_is_soon_over_is_not_compiled():
    setting = Setting(Paced("graph", 0.001), Paced("compile", 0.001))
    setting.updates(40, 100)
    assert setting.compiler.num_calls == 0 and setting.told == []


def test_a_compiler_that_fails_leaves_the_run_as_it_is():
    setting = Setting(Paced("graph", 0.002), Paced("compile", 0.001), Compiler("no gcc\nat all"))
    assert setting.updates(40, 100_000).mode == "graph"
    assert setting.told == ["NOTE: updates stay in the mode graph: no gcc"]


def test_it_is_known_whether_something_is_compiled():
    may_end = threading.Event()
    setting = Setting(Paced("graph", 0.001), Paced("compile", 0.001), Compiler(may_end=may_end))
    run = setting.updates(10, 100_000)
    assert is_compiling()
    may_end.set()
    run._thread.join()
    assert not is_compiling()


def test_where_nothing_can_be_recorded_nothing_is_compiled():
    setting = Setting(Paced("eager", 0.001, works=False), Paced("compile", 0.001))
    setting.updates(40, 100_000)
    assert setting.compiler.num_calls == 0
