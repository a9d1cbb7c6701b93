"""Steps switch to compiled kernels if a trial approves them, and only then."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from manyhands.parallel.placement import RankPlacement
from manyhands.training.step import auto_compile
from manyhands.training.step.auto_compile import NUM_SETTLING, AutoCompile
from manyhands.training.step.train_step import StepInputs, StepMetrics
from manyhands.training.step.verdict import MAX_UNFINISHED, Verdict

INPUTS = StepInputs({"x": torch.ones(1)}, {})
MEASURES = StepMetrics({}, torch.tensor(0.0), torch.tensor(False))
FASTER = Verdict(is_faster=True, reason="1.0 ms instead of 4.0 ms per step", num_bytes=100)
DIED = Verdict(is_faster=False, reason="its trial was killed by signal 6")
TRYING = "Trying the compiled step in the background"
LONG = 1_000_000


@dataclass
class Clock:
    """A time that only steps make pass."""

    now_s: float = 0.0

    def monotonic(self) -> float:
        return self.now_s


CLOCK = Clock()


class World:
    """Ranks that all answer alike, seen from one of them."""

    device = torch.device("cpu")

    def __init__(self, rank: int = 0, gpus: tuple[str, ...] = ("H200",)) -> None:
        self.rank = rank
        self.placements = [
            RankPlacement(number, "host", "cuda", name) for number, name in enumerate(gpus)
        ]

    def gather(self, value: Any) -> list[Any]:
        return [value for _ in self.placements]

    def any(self, value: bool) -> bool:
        return value


@dataclass
class Paced:
    """Steps that take their time, captured when asked."""

    mode: str
    step_s: float
    works: bool = True
    world: Any = field(default_factory=World)
    num_steps: int = 0
    num_captured: int = 0
    num_released: int = 0

    @property
    def step(self) -> Any:
        return SimpleNamespace(world=self.world)

    def __call__(self, inputs: StepInputs, num_left: int) -> StepMetrics:
        CLOCK.now_s += self.step_s
        self.num_steps += 1
        return MEASURES

    def capture(self, inputs: StepInputs) -> bool:
        self.num_captured += 1
        return self.works

    def release(self) -> None:
        self.num_released += 1


@dataclass
class Trial:
    """A trial that takes a while and then has a verdict."""

    found: Verdict | None = FASTER
    known: Verdict | None = None
    fault: str | None = None
    num_checks: int = 3
    num_started: int = 0
    switches: list[str] = field(default_factory=list)
    is_closed: bool = False

    def verdict(self, inputs: StepInputs) -> Verdict | None:
        return self.known

    def start(self, inputs: StepInputs) -> str | None:
        self.num_started += 1
        return self.fault

    @property
    def is_running(self) -> bool:
        self.num_checks -= 1
        if self.num_checks == 0:
            self.known = self.found
        return self.num_checks > 0

    def begin_switch(self, verdict: Verdict) -> None:
        self.switches.append("begun")

    def end_switch(self, verdict: Verdict) -> None:
        self.switches.append("ended")

    def close(self) -> None:
        self.is_closed = True


@dataclass
class Setting:
    """A run that may switch, and what it logged."""

    graph: Paced = field(default_factory=lambda: Paced("graph", 0.4))
    compiled: Paced = field(default_factory=lambda: Paced("compile", 0.1))
    trial: Trial = field(default_factory=Trial)
    logged: list[str] = field(default_factory=list)

    def run(self, num_steps: int = 200, num_left: int = LONG) -> AutoCompile:
        parts = cast(Any, (self.graph, self.compiled, self.trial))
        step = AutoCompile(*parts, 300.0, self.logged.append)
        for _ in range(num_steps):
            step(INPUTS, num_left)
        return step


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    monkeypatch.setattr(auto_compile, "time", CLOCK)
    monkeypatch.setattr(auto_compile, "free_bytes", lambda device: 1000)


def test_the_compiled_step_takes_over_once_its_trial_found_it_faster():
    setting = Setting()
    assert setting.run().mode == "compile"
    assert setting.trial.num_started == 1 and setting.trial.switches == ["begun", "ended"]
    assert setting.graph.num_steps + setting.compiled.num_steps == 200
    assert setting.logged == [
        TRYING,
        "Switched to the compiled step: 100.0 ms instead of 400.0 ms per step",
    ]


def test_the_graph_is_released_before_the_next_is_captured():
    setting = Setting()
    released = []
    setting.compiled.capture = lambda inputs: released.append(setting.graph.num_released) or True
    setting.run()
    assert released == [1]


@pytest.mark.parametrize("found", [DIED, None])
def test_a_trial_that_died_or_left_no_verdict_leaves_the_run_in_graph_mode(found):
    setting = Setting(trial=Trial(found=found))
    assert setting.run().mode == "graph"
    assert setting.compiled.num_captured == 0
    trying, reason = setting.logged
    assert trying == TRYING and reason.startswith("Compiled step not used: its trial ")


def test_a_trial_for_which_memory_is_missing_is_not_made_and_not_asked_for_again():
    setting = Setting(trial=Trial(fault="2 GiB are free"))
    assert setting.run().mode == "graph"
    assert setting.logged == ["Compiled step not tried: 2 GiB are free"]
    assert setting.trial.num_started == 1


def test_a_run_that_is_soon_over_is_not_compiled():
    """Less than `step.compile_min_left_s` is left."""
    setting = Setting()
    assert setting.run(num_left=100).mode == "graph"
    assert setting.trial.num_started == 0 and setting.logged == []


def test_a_stored_verdict_lets_a_run_begin_compiled():
    setting = Setting(trial=Trial(known=FASTER))
    assert setting.run(1).mode == "compile"
    assert setting.graph.num_steps == 0 and setting.trial.num_started == 0


def test_a_stored_verdict_against_it_is_logged_once():
    setting = Setting(trial=Trial(known=DIED))
    assert setting.run().mode == "graph" and setting.trial.num_started == 0
    assert setting.logged == [f"Compiled step not used: {DIED.reason}"]


def test_a_run_that_died_twice_while_it_switched_does_not_switch_again():
    known = Verdict(is_faster=True, reason="", num_unfinished=MAX_UNFINISHED)
    setting = Setting(trial=Trial(known=known))
    assert setting.run().mode == "graph" and setting.compiled.num_captured == 0


@pytest.mark.parametrize("known", [None, FASTER])
def test_without_the_memory_that_the_compiled_step_needs_a_run_stays_in_graph_mode(
    monkeypatch, known
):
    monkeypatch.setattr(auto_compile, "free_bytes", lambda device: 99)
    setting = Setting(trial=Trial(known=known))
    assert setting.run().mode == "graph" and setting.compiled.num_captured == 0
    assert setting.logged == [TRYING] * setting.trial.num_started + [
        "Compiled step not used: it needs 100 B of GPU memory, and 99 B are free"
    ]


@pytest.mark.parametrize("known", [None, FASTER])
def test_a_capture_that_fails_leaves_the_run_in_graph_mode(known):
    setting = Setting(compiled=Paced("compile", 0.1, works=False), trial=Trial(known=known))
    assert setting.run().mode == "graph"
    assert setting.compiled.num_steps == 0 and setting.compiled.num_released == 1


def test_compiled_steps_that_are_slower_in_the_run_are_given_up():
    setting = Setting(compiled=Paced("compile", 0.5))
    assert setting.run().mode == "graph"
    assert setting.compiled.num_steps > 0 and setting.compiled.num_released == 1
    assert setting.logged == [
        TRYING,
        "Compiled step not used: it takes 500.0 ms instead of 400.0 ms per step",
    ]


def test_where_nothing_can_be_captured_nothing_is_compiled():
    setting = Setting(graph=Paced("eager", 0.4, works=False))
    assert setting.run().mode == "eager" and setting.trial.num_started == 0


def test_one_rank_of_each_kind_of_gpu_makes_the_trial():
    gpus = ("H200", "H200", "A100", "A100")
    started = []
    for rank in range(4):
        setting = Setting(graph=Paced("graph", 0.4, world=World(rank, gpus)))
        setting.run(NUM_SETTLING + 10)
        started.append(setting.trial.num_started)
    assert started == [1, 0, 1, 0]


@pytest.mark.parametrize(("step_s", "num_steps"), [(0.001, 10_000), (5.0, 10)])
def test_checks_go_by_time(step_s, num_steps):
    setting = Setting(graph=Paced("graph", step_s), trial=Trial(num_checks=LONG))
    setting.run(NUM_SETTLING + num_steps)
    # Once a second, or after every step that takes longer, from the third check on.
    assert 7 <= LONG - setting.trial.num_checks <= 10


def test_a_run_that_ends_ends_its_trial():
    setting = Setting()
    setting.run(1).close()
    assert setting.trial.is_closed
