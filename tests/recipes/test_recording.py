"""The recorders of recipes write datasets, and explain what they cannot do."""

import os
import re
import runpy
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from multiprocessing import active_children
from pathlib import Path

import pytest

from manyhands.config.sections.env import ALOHA_TASKS, AlohaEnvConfig
from manyhands.data.dataset import open_dataset
from manyhands.errors import EnvironmentFault
from manyhands.sim.aloha import AlohaEnvironment
from manyhands.sim.tray.task import CAMERA

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


@pytest.fixture
def record(command):
    """Runs a recorder; returns what it printed."""

    def run(script: str, *flags: str, code: int = 0) -> str:
        return command.run([sys.executable, str(RECIPES / script), *flags], code)

    return run


@pytest.mark.process
def test_the_built_in_task_is_recorded_with_its_camera(record, tmp_path):
    root = tmp_path / "data"
    record("record_tray.py", f"--root={root}", "--episodes=2", "--size=32", "--seed=5")
    dataset = open_dataset(root=root)
    assert dataset.num_episodes == 2
    assert dataset[0][CAMERA].shape == (3, 32, 32)
    assert all(dataset[int(end) - 1]["next.success"] for _, end in dataset.episode_bounds)
    printed = record("record_tray.py", f"--root={root}", code=2)
    assert printed == f"manyhands: {root} already exists. Choose a new folder\n"


@pytest.mark.process
def test_a_recorder_ends_with_what_it_recorded_and_what_to_do_next(record, tmp_path):
    root = tmp_path / "my data"
    printed = record("record_tray.py", f"--root={root}", "--episodes=2", "--size=32", "--seed=5")
    num_frames = len(open_dataset(root=root))
    config = os.path.relpath(RECIPES / "act_tray.yaml")
    assert printed.splitlines()[-2:] == [
        f"Recorded 2 episodes, {num_frames} frames: {root}",
        f"Train: manyhands train --config_path={config} '--dataset.root={root}' "
        "--output_dir=outputs/act_tray",
    ]


SIZES = [("record_tray.py", "size"), ("record_aloha.py", "height"), ("record_aloha.py", "width")]


@pytest.mark.process
@pytest.mark.parametrize("script", ["record_tray.py", "record_aloha.py"])
@pytest.mark.parametrize(
    ("number", "fault"), [("0", "0 must be at least 1"), ("x", "'x' is not an integer")]
)
def test_numbers_that_make_no_sense_are_refused(record, tmp_path, script, number, fault):
    printed = record(script, f"--root={tmp_path}/data", f"--episodes={number}", code=2)
    assert f"argument --episodes: {fault}\n" in printed and "Traceback" not in printed


@pytest.mark.process
@pytest.mark.parametrize(("script", "flag"), SIZES)
@pytest.mark.parametrize("size", [7, 2])
def test_sizes_that_no_video_has_are_refused(record, tmp_path, script, flag, size):
    printed = record(script, f"--root={tmp_path}/data", f"--{flag}={size}", code=2)
    fault = f"{size} does not fit: video needs even sizes from 4"
    assert printed.endswith(f"argument --{flag}: {fault}\n")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("script", ["record_tray.py", "record_aloha.py"])
def test_every_flag_of_a_recorder_has_help(script, monkeypatch):
    monkeypatch.syspath_prepend(str(RECIPES))
    parser = runpy.run_path(str(RECIPES / script))["flags"]()
    assert all(action.help for action in parser._actions)
    assert "default: 1000000" in parser.format_help()


@pytest.fixture
def aloha(monkeypatch):
    """What the recorder of ALOHA consists of."""
    monkeypatch.syspath_prepend(str(RECIPES))
    return runpy.run_path(str(RECIPES / "record_aloha.py"))


def test_aloha_is_recorded_with_the_inputs_of_its_environment(aloha):
    features = aloha["features"](48, 64)
    assert features["observation.images.top"]["shape"] == (48, 64, 3)
    assert features["observation.state"]["shape"] == features["action"]["shape"] == (14,)
    assert len(set(features["action"]["names"])) == 14
    asked = aloha["flags"]().parse_args(["--root=data"])
    assert (asked.task, asked.episodes) == ("AlohaTransferCube-v0", 50)
    # Evaluation starts at seed 1000.
    assert asked.seed == 1_000_000


def test_every_task_of_aloha_has_a_recipe(aloha):
    assert {*aloha["RECIPES"]} == {*ALOHA_TASKS}
    assert all((RECIPES / f"{name}.yaml").is_file() for name in aloha["RECIPES"].values())


STATES = {"observation.state": (14,)}


@pytest.fixture
def cube():
    """The transfer of the cube, where its simulator is installed."""
    pytest.importorskip("gym_aloha", reason="pip install 'manyhands[sim]'")
    return AlohaEnvConfig(task="AlohaTransferCube-v0")


@pytest.fixture
def rendering_cube(cube):
    """The same, where it can be rendered."""
    try:
        AlohaEnvironment(cube, STATES).render()
    except EnvironmentFault as fault:
        pytest.skip(str(fault))
    return cube


def test_seeds_of_aloha_are_those_whose_expert_succeeds(aloha, cube):
    (seed,) = islice(aloha["successful_seeds"](cube, 1_000_000), 1)
    rows = list(aloha["expert_rows"](cube, STATES, seed))
    assert len(rows) == cube.episode_length
    assert any(row["next.success"][0] for row in rows)
    # Nobody succeeds before the cube is lifted: such episodes are not recorded.
    short = replace(cube, episode_length=20)
    rows = list(aloha["expert_rows"](short, STATES, seed))
    assert not any(row["next.success"][0] for row in rows)


@pytest.fixture
def rendered(aloha):
    """Renders short episodes by two processes: seeds in, rows of each out."""

    def run(config, seeds, report=lambda num_steps: None, begin=None):
        begin = begin or partial(aloha["Rendering"], config, STATES)
        return aloha["rendered_episodes"](begin, iter(seeds), 2, report)

    return run


@pytest.mark.process
def test_episodes_come_in_the_order_of_their_seeds(rendered, aloha, cube):
    short, reported = replace(cube, episode_length=40), []
    seeds = range(10**6, 10**6 + 5)
    found = list(rendered(short, seeds, reported.append))
    expected = [list(aloha["expert_rows"](short, STATES, seed)) for seed in seeds]
    assert [[row["action"].tolist() for row in rows] for rows in found] == [
        [row["action"].tolist() for row in rows] for rows in expected
    ]
    # Finer than episodes, so that the time left is known before the first one ends.
    assert [num_steps for num_steps in reported if num_steps] == [20] * 10
    assert active_children() == []


@pytest.mark.process
def test_few_episodes_are_rendered_ahead(rendered, aloha, cube):
    short, begun = replace(cube, episode_length=20), []

    def begin(seed):
        begun.append(seed)
        return aloha["Rendering"](short, STATES, seed)

    with closing(rendered(short, range(10**6, 10**6 + 9), begin=begin)) as episodes:
        for num_taken, _ in enumerate(episodes):
            assert len(begun) <= num_taken + 4
    assert len(begun) == 9


@pytest.mark.process
def test_a_process_that_dies_ends_the_recording_with_a_remedy(rendered, aloha, cube):
    def begin(seed):
        started = aloha["Rendering"](cube, STATES, seed)
        for process in active_children():
            process.kill()
        return started

    with pytest.raises(EnvironmentFault, match=r"died\. .*set a lower --processes"):
        next(rendered(cube, [10**6], begin=begin))


@pytest.mark.process
def test_a_wrong_mujoco_variable_is_named(cube, command, tmp_path):
    printed = command.run(
        [sys.executable, str(RECIPES / "record_aloha.py"), f"--root={tmp_path}/data"],
        code=2,
        changes={"MUJOCO_GL": "nonsense"},
    )
    assert "Set MUJOCO_GL to egl, osmesa or glfw, not 'nonsense'\n" in printed
    assert ".." not in printed and "--env.task" not in printed and "Install" not in printed


@pytest.fixture
def recording(rendering_cube, tmp_path):
    """A recording of fifty episodes, which shows its progress; it does not outlive the test."""
    # Shells let programs in the background ignore Ctrl-C, and programs inherit that.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    program = subprocess.Popen(
        [sys.executable, str(RECIPES / "record_aloha.py"), f"--root={tmp_path}/data"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"FORCE_COLOR": "1", "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    )
    signal.signal(signal.SIGINT, handler)
    yield program
    with suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
    program.wait()


@pytest.mark.process
@pytest.mark.long
def test_a_recording_shows_the_time_left_and_ends_at_once_by_ctrl_c(recording, tmp_path):
    printed, deadline = b"", time.monotonic() + 90
    # Long before the first episode ends.
    while not re.search(rb"\d:\d\d:\d\d", printed) and time.monotonic() < deadline:
        printed += os.read(recording.stdout.fileno(), 4096)
    assert re.search(rb"  [01]%.*\d:\d\d:\d\d", printed), printed
    # A terminal interrupts all processes of the job.
    os.killpg(recording.pid, signal.SIGINT)
    interrupted = time.monotonic()
    rest, _ = recording.communicate(timeout=90)
    assert time.monotonic() - interrupted < 5
    assert recording.returncode == 130
    assert rest.endswith(b"manyhands: interrupted\n") and b"Traceback" not in rest
    assert not any(tmp_path.iterdir())
