"""`manyhands eval` as users run it: results, and usage errors without a traceback."""

import json
import os
import sys
from pathlib import Path

import pytest

from manyhands.cli.eval import eval_command
from manyhands.cli.main import run_guarded

PROGRAM = (sys.executable, "-m", "manyhands", "eval")
TOYS = Path(__file__).resolve().parents[1] / "processes"
TRAY = ("--env.type=tray", "--env.episode_length=8")
POINT = ("--env.type=gym", "--env.task=toys/Point-v0", "--env.package=toy_worlds")
KEYS = "--env.observation_keys={observation.environment_state: world/goal}"

pytestmark = pytest.mark.process


@pytest.fixture
def evaluate(command, tray_run, tmp_path, monkeypatch):
    """Evaluates the policy of a tiny run; returns what was printed."""
    monkeypatch.chdir(tmp_path)
    path = [str(TOYS), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]

    def run(*flags, code=0, policy=tray_run, before=()):
        changes = {"PYTHONPATH": os.pathsep.join([*map(str, before), *filter(None, path)])}
        named = [*PROGRAM, f"--policy.path={policy}", *flags]
        named += () if any("policy.device" in flag for flag in flags) else ("--policy.device=cpu",)
        return command.run(named, code, changes)

    return run


@pytest.fixture
def refuse(evaluate):
    """Evaluates in vain; returns the lines that say why."""

    def run(*flags, **settings):
        printed = evaluate(*flags, code=2, **settings)
        assert "Traceback" not in printed
        assert all(line.startswith("manyhands: ") for line in printed.splitlines()), printed
        return printed

    return run


def test_results_are_the_same_with_one_and_two_processes(evaluate, tmp_path):
    found, strips = [], []
    for number in (1, 2):
        out, file = tmp_path / f"out{number}", tmp_path / f"{number}.json"
        flags = (f"--launch.num_processes={number}", f"--eval.batch_size={3 - number}")
        flags += (f"--output_dir={out}", f"--json={file}")
        printed = evaluate(*TRAY, *flags, "--eval.n_episodes=5", "--max_videos=3")
        assert "success" in printed and f"results: {out}" in printed
        assert "pretrained_model_ema" in printed
        results = json.loads(file.read_text())
        found.append(results["episodes"])
        strips.append((out / "film_strips.png").read_bytes())
        assert len([*(out / "videos").iterdir()]) == 3
        assert json.loads((out / "eval_info.json").read_text())["overall"]["n_episodes"] == 5
    assert [row["seed"] for row in found[0]] == [1000, 1001, 1002, 1003, 1004]
    assert found[0] == found[1]
    # The task rewards nothing before its end; that the arm moved alike is seen in its films.
    assert strips[0] == strips[1]


def test_the_last_line_is_the_verdict(evaluate, tmp_path):
    flags = (*TRAY, "--eval.n_episodes=5", "--max_videos=0", "--eval.expected_success=[0,20.5]")
    printed = evaluate(*flags, "--json=found.json", "--output_dir=out")
    last = "Success 0.0 % [0.0, 43.4] over 5 episodes: reproduced (expected 0 to 20.5 %)"
    assert printed.splitlines()[-1] == last
    for file in ("found.json", "out/eval_info.json"):
        found = json.loads((tmp_path / file).read_text())
        assert (found["expected_success"], found["verdict"]) == ([0, 20.5], "reproduced")


@pytest.fixture
def evaluate_here(tray_run, tmp_path, monkeypatch):
    """Evaluates in this process; returns the exit code."""
    monkeypatch.chdir(tmp_path)
    usual = ("--eval.n_episodes=2", "--eval.use_async_envs=false", "--policy.device=cpu")
    return lambda *flags: run_guarded(
        eval_command, [*TRAY, *usual, f"--policy.path={tray_run}", "--max_videos=0", *flags]
    )


def test_flags_of_lerobot_eval_are_taken(evaluate_here, tmp_path):
    flags = ("--policy.use_amp=false", "--policy.type=act", "--policy.n_action_steps=1")
    assert evaluate_here(*flags, "--job_name=night", "--json=found.json") == 0
    (folder,) = (tmp_path / "outputs" / "eval").glob("*/*_night")
    for file in (folder / "eval_info.json", tmp_path / "found.json"):
        assert json.loads(file.read_text())["job_name"] == "night"


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--policy.n_action_steps=99", "--policy.n_action_steps=99 must be between 1 and"),
        ("--policy.chunk_size=99", "--policy.chunk_size=99 cannot change a trained policy"),
        ("--policy.use_emma=true", "unknown flag --policy.use_emma; did you mean --policy.use_ema"),
        ("--rename_map={observation.state: top}", "--rename_map names top, which the policy does"),
        (
            "--rename_map={joints: observation.state}",
            "--env.type=tray does not give joints, which the policy reads",
        ),
    ],
)
def test_flags_of_a_policy_that_cannot_be_are_refused(evaluate_here, capsys, flag, told):
    assert evaluate_here(flag) == 2
    assert told in capsys.readouterr().err


def test_results_that_cannot_be_written_are_reported_first(evaluate_here, tmp_path, capsys):
    out, file = tmp_path / "out", tmp_path / "found.json"
    # What a file is written to before it gets its name.
    (out / ".eval_info.json.partial").mkdir(parents=True)
    assert evaluate_here(f"--output_dir={out}", f"--json={file}") == 2
    printed = capsys.readouterr()
    assert "0.0%" in printed.out and f"results: {out}" not in printed.out
    assert len(json.loads(file.read_text())["episodes"]) == 2
    told = f"manyhands: {out} cannot be written: Is a directory. Set another --output_dir"
    assert told in printed.err and "Traceback" not in printed.err


def test_episodes_that_crash_are_counted_and_explained(evaluate, tmp_path):
    pytest.importorskip("gymnasium", reason="pip install 'manyhands[sim]'")
    flags = (*POINT, KEYS, "--env.gym_kwargs={faults: {1001: die}}", "--env.episode_length=5")
    printed = evaluate(*flags, "--eval.n_episodes=3", "--max_videos=0", "--json=results.json")
    assert "1 episodes crashed and count as failures; seed 1001" in printed
    rows = json.loads((tmp_path / "results.json").read_text())["episodes"]
    assert [row["error"] is None for row in rows] == [True, False, True]


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--env.type=push",), "pusht"),
        (("--env.type=pusht", "--env.task=PushX-v0"), "--env.task=PushX-v0 is not one of PushT-v0"),
        ((*TRAY, "--output_dir=file/out"), "--output_dir=file/out: file is a file, not a folder"),
        ((*TRAY, "--output_dir=old"), "--output_dir=old already contains an evaluation"),
        ((*TRAY, "--json=none/a.json"), "--json=none/a.json: folder none does not exist"),
        ((*TRAY, "--json=old"), "--json=old is a folder"),
        ((*TRAY, "--eval.timeout_s=-1"), "--eval.timeout_s=-1"),
        ((*TRAY, "--eval.expected_success=[70,60]"), "--eval.expected_success=[70,60] must be"),
        ((*TRAY, "--eval.expected_success=70"), "two numbers such as"),
        ((), "no environment. Set --env.type="),
    ],
)
def test_flags_and_files_are_checked_before_anything_runs(refuse, tmp_path, flags, told):
    (tmp_path / "file").touch()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "eval_info.json").touch()
    assert told in refuse(*flags)


def test_a_path_without_a_policy_is_refused(refuse, tmp_path):
    told = refuse(*TRAY, policy=tmp_path)
    assert f"{tmp_path} contains no policy" in told


def test_a_gpu_that_is_missing_is_named(refuse):
    told = refuse(*TRAY, "--policy.device=cuda:77")
    assert "--policy.device=cuda:77: device cuda:77 is not available on this machine. Use" in told


def test_a_missing_extra_names_the_command_that_installs_it(refuse, tmp_path):
    missing = "raise ModuleNotFoundError(\"No module named 'gymnasium'\", name='gymnasium')\n"
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "gymnasium.py").write_text(missing)
    told = refuse(*POINT, before=[tmp_path / "without"])
    assert "package gymnasium is missing. Install: pip install 'manyhands[sim]'" in told


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ((), "Set --env.observation_keys={observation.environment_state: world/goal}"),
        ((KEYS, "--env.gym_kwargs={on_build: raise}"), "raised ValueError: the toy is broken"),
        ((KEYS, "--env.gym_kwargs={on_reset: raise}"), "raised ValueError: the toy is broken"),
        (
            (KEYS, "--env.gym_kwargs={on_reset: hang}", "--eval.timeout_s=3"),
            "the environment did not answer within 3 s (--eval.timeout_s)",
        ),
    ],
)
def test_an_environment_that_cannot_run_is_explained(refuse, flags, told):
    pytest.importorskip("gymnasium", reason="pip install 'manyhands[sim]'")
    assert told in refuse(*POINT, *flags, "--eval.n_episodes=3")


def test_actions_of_another_size_are_refused_before_any_episode(refuse, tmp_path):
    pytest.importorskip("gymnasium", reason="pip install 'manyhands[sim]'")
    flags = ("--env.task=toys/Buttons-v0", KEYS.replace("world/goal", "observation"))
    told = refuse(*POINT[::2], *flags, f"--output_dir={tmp_path / 'out'}")
    assert "--env.type=gym takes actions of size 1, but those of the policy have size 3" in told
    assert not (tmp_path / "out").exists()


def test_a_task_that_nobody_registered_is_refused(refuse):
    pytest.importorskip("gymnasium", reason="pip install 'manyhands[sim]'")
    assert "--env.task=toys/None-v0" in refuse(*POINT[::2], "--env.task=toys/None-v0")
