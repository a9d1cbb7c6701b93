"""wandb, offline and with a server on this machine."""

import ast
import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("wandb", reason="pip install 'manyhands[track]'")

from manyhands.data.images.encoder import ClipEncoder, ClipFile
from manyhands.observe.trackers.wandb import artifact_name, read_sent, tags_of
from manyhands.observe.trackers.wandb_file import (
    read_artifacts,
    read_history,
    read_records,
    run_files,
)

OFFLINE = "--wandb.mode=offline"
LOG = """
import pickle, sys
from pathlib import Path
run, run_id, calls = pickle.load(sys.stdin.buffer)
from manyhands.observe.trackers.wandb import WandbTracker
tracker = WandbTracker(run, run_id)
for name, *arguments in calls:
    getattr(tracker, name)(*arguments)
tracker.finish(0)
sent = tracker.sent
print((sent.last_step, sorted(sent.evaluated), sent.checkpoints, tracker.facts))
"""


def history(run_dir: Path) -> list[dict[str, Any]]:
    return [row for file in run_files(run_dir / "wandb", "abc") for row in read_history(file)]


def steps(first: int, last: int) -> list[tuple[Any, ...]]:
    return [("log_step", step, {"train/steps": step}) for step in range(first, last + 1)]


def evaluation(step: int, video: Path | None = None) -> tuple[Any, ...]:
    return ("log_evaluation", step, {"eval/eval_loss": step / 10, "eval/steps": step}, video)


def test_a_late_evaluation_keeps_its_step_and_none_is_lost(tracked_run, in_new_process):
    run = tracked_run(OFFLINE, "--steps=5")
    calls = [*steps(1, 3), evaluation(1), evaluation(2), *steps(4, 5), evaluation(5), evaluation(3)]
    in_new_process(LOG, (run, "abc", calls))
    rows = history(run.run_dir)
    assert [row["_step"] for row in rows if "train/steps" in row] == [1, 2, 3, 4, 5]
    found = [(row["eval/steps"], row["eval/eval_loss"]) for row in rows if "eval/steps" in row]
    assert found == [(1, 0.1), (2, 0.2), (5, 0.5), (3, 0.3)]
    assert read_sent(rows).evaluated >= {(1, "eval/eval_loss"), (3, "eval/eval_loss")}


def test_a_late_evaluation_never_takes_a_step_that_training_still_has_to_log(
    tracked_run, in_new_process
):
    run = tracked_run(OFFLINE, "--steps=9")
    # The run stops: what has no step yet is logged when it is resumed, with its next step.
    in_new_process(LOG, (run, "abc", [*steps(1, 3), evaluation(1), evaluation(2)]))
    in_new_process(LOG, (run, "abc", [evaluation(2), *steps(4, 5)]))
    rows = history(run.run_dir)
    assert [(row["_step"], row["train/steps"]) for row in rows] == [(n, n) for n in range(1, 6)]
    assert [(row["_step"], row["eval/steps"]) for row in rows if "eval/steps" in row] == [
        (3, 1),
        (4, 2),
    ]


def test_a_resumed_run_knows_what_its_files_hold(tracked_run, in_new_process):
    run = tracked_run(OFFLINE, "--steps=9")
    in_new_process(LOG, (run, "abc", [*steps(1, 3), evaluation(2)]))
    *_, found = in_new_process(LOG, (run, "abc", steps(4, 4))).splitlines()
    last_step, evaluated, _, facts = ast.literal_eval(found)
    assert (last_step, evaluated) == (3, [(2, "eval/eval_loss"), (2, "eval/steps")])
    assert facts["id"] == "abc" and "url" not in facts
    assert Path(facts["folder"]).parent == run.run_dir / "wandb"
    assert [row["_step"] for row in history(run.run_dir)] == [1, 2, 3, 4]


def test_weights_of_checkpoints_are_artifacts_unless_disabled(tracked_run, in_new_process):
    run = tracked_run(OFFLINE, "--steps=9")
    names = {"000002": ["model.safetensors"], "000004": ["adapter_model.safetensors"]}
    names |= {"000006": []}  # Sharded: no file of weights.
    for step, files in names.items():
        folder = run.run_dir / "checkpoints" / step / "pretrained_model"
        folder.mkdir(parents=True)
        for name in (*files, "config.json"):
            (folder / name).write_text(step + name)
    calls = [("log_checkpoint", run.run_dir / "checkpoints" / step) for step in names]
    *_, found = in_new_process(LOG, (run, "abc", calls)).splitlines()
    (file,) = run_files(run.run_dir / "wandb", "abc")
    group = "policy_act-seed_7-dataset_me_pick"
    assert [*read_artifacts(file)] == [f"{group}-000002", f"{group}-000004"]
    manifests = [
        record.artifact.manifest for record in read_records(file) if record.HasField("artifact")
    ]
    contents = [sorted(entry.path for entry in each.contents) for each in manifests]
    assert contents == [["model.safetensors"], ["adapter_model.safetensors", "config.json"]]
    *_, found = in_new_process(LOG, (run, "abc", [])).splitlines()
    assert ast.literal_eval(found)[2] == {"000002", "000004"}
    quiet = tracked_run(OFFLINE, "--steps=9", "--wandb.disable_artifact=true")
    in_new_process(LOG, (quiet, "quiet", calls))
    (file,) = run_files(run.run_dir / "wandb", "quiet")
    assert not [*read_artifacts(file)]


def test_the_run_has_the_settings_of_the_flags(tracked_run, in_new_process):
    flags = ("--wandb.project=arm", "--wandb.entity=lab", "--wandb.notes=new gripper")
    run = tracked_run(OFFLINE, "--steps=9", *flags)
    in_new_process(LOG, (run, "abc", []))
    (file,) = run_files(run.run_dir / "wandb", "abc")
    (told,) = [record.run for record in read_records(file) if record.HasField("run")]
    assert (told.project, told.entity, told.notes) == ("arm", "lab", "new gripper")
    assert (told.display_name, told.job_type) == ("pick", "train_eval")
    assert [*told.tags] == ["policy:act", "seed:7", "dataset:me/pick"]
    config = {item.key: json.loads(item.value_json) for item in told.config.update}
    assert config["seed"] == 7 and config["policy"]["type"] == "act"
    plain = tracked_run(OFFLINE, "--steps=9", "--wandb.add_tags=false")
    in_new_process(LOG, (plain, "plain", []))
    (file,) = run_files(run.run_dir / "wandb", "plain")
    assert [[*record.run.tags] for record in read_records(file) if record.HasField("run")] == [[]]


def test_the_first_video_of_an_evaluation_is_shown(tracked_run, in_new_process, tmp_path):
    video = write_clip(tmp_path / "clip.mp4")
    run = tracked_run(OFFLINE, "--steps=9")
    in_new_process(LOG, (run, "abc", [*steps(1, 1), evaluation(1, video)]))
    (row,) = history(run.run_dir)
    (shown,) = run.run_dir.rglob("media/videos/eval/*.mp4")
    assert shown.read_bytes() == video.read_bytes()
    assert read_sent([row]).evaluated >= {(1, "eval/video")}


def write_clip(path: Path) -> Path:
    encoder = ClipEncoder(10, 32, 32)
    for shade in range(4):
        encoder.add(np.full((32, 32, 3), shade * 40, np.uint8))
    file = ClipFile(path, 10)
    file.append(encoder.finish())
    file.close()
    return path


def test_without_credentials_it_is_offline_and_says_how_to_upload(
    tracked_run, in_new_process, monkeypatch, tmp_path
):
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    run = tracked_run("--wandb.enable=true", "--steps=9")
    *_, found = in_new_process(LOG, (run, "abc", steps(1, 2))).splitlines()
    warning = ast.literal_eval(found)[3]["warning"]
    assert warning.startswith("wandb is offline: ") and "configured" in warning
    assert ".." not in warning
    assert f"wandb sync {run.run_dir}/wandb/offline-run-*" in warning
    assert [row["_step"] for row in history(run.run_dir)] == [1, 2]


def test_with_a_key_and_without_network_it_is_offline(tracked_run, in_new_process, monkeypatch):
    server = runpy.run_path(str(Path(__file__).parents[2] / "wandb_server.py"))["WandbServer"]
    with server() as gone:
        environ = gone.environ | {"WANDB_INIT_TIMEOUT": "3"}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    run = tracked_run("--wandb.enable=true", "--steps=9")
    *_, found = in_new_process(LOG, (run, "abc", steps(1, 2))).splitlines()
    facts = ast.literal_eval(found)[3]
    assert facts["warning"].startswith("wandb is offline: ") and "url" not in facts
    assert [row["_step"] for row in history(run.run_dir)] == [1, 2]


def test_a_server_is_sent_what_it_does_not_hold(tracked_run, in_new_process, monkeypatch):
    run = tracked_run("--wandb.disable_artifact=true", "--steps=9")
    server = runpy.run_path(str(Path(__file__).parents[2] / "wandb_server.py"))["WandbServer"]
    with server() as running:
        for name, value in running.environ.items():
            monkeypatch.setenv(name, value)
        calls = [*steps(1, 3), evaluation(2)]
        *_, found = in_new_process(LOG, (run, "abc", calls)).splitlines()
        assert ast.literal_eval(found)[3]["url"].endswith("/runs/abc")
        # What the server never received is in the files of the run all the same.
        running.forget("abc", 1)
        *_, found = in_new_process(LOG, (run, "abc", steps(3, 5))).splitlines()
        assert ast.literal_eval(found)[:2] == (2, [])
        assert [row["_step"] for row in running.history("abc")] == [1, 2, 3, 4, 5]


def test_names_are_those_of_lerobot_within_the_limits_of_wandb(tracked_run):
    config = tracked_run("--env.type=pusht").config
    assert tags_of(config) == ["policy:act", "seed:7", "dataset:me/pick", "env:pusht"]
    name = artifact_name(config, "000200")
    assert name == "policy_act-seed_7-dataset_me_pick-env_pusht-000200"
    long = tracked_run(f"--dataset.repo_id=me/{'x' * 90}", "--seed=123456789").config
    assert all(len(tag) <= 64 for tag in tags_of(long))
    many = "--dataset.mix={'" + "a b" * 50 + "': 1, b: 1}"
    mixed = tracked_run("--dataset.repo_id=null", many).config
    name = artifact_name(mixed, "000200")
    assert len(name) == 128 and name.endswith("-000200") and " " not in name
