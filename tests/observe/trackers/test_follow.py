"""Rows and checkpoints of a run, each logged once."""

from pathlib import Path

from manyhands.atomic import replace_symlink
from manyhands.observe.jsonl import JsonLines
from manyhands.observe.trackers.follow import Follower, follow
from manyhands.observe.trackers.tracker import Sent


class Memory:
    """A tracker that remembers what it is given."""

    def __init__(self, sent: Sent | None = None) -> None:
        self.sent = sent or Sent()
        self.facts: dict[str, str] = {}
        self.steps: list[int] = []
        self.evaluations: list[tuple[int, set[str], str | None]] = []
        self.checkpoints: list[str] = []

    def log_step(self, step: int, values: dict[str, float]) -> None:
        assert values["train/steps"] == step
        self.steps.append(step)

    def log_evaluation(self, step: int, values: dict[str, float], video: Path | None) -> None:
        assert values["eval/steps"] == step
        names = {name for name in values if "loss" in name or "success" in name}
        self.evaluations.append((step, names, video and video.name))

    def log_checkpoint(self, checkpoint: Path) -> None:
        self.checkpoints.append(checkpoint.name)

    def flush(self) -> None:
        pass

    def finish(self, exit_code: int) -> None:
        pass


def test_a_step_is_logged_once_though_it_runs_again(tracked_run):
    run, memory = tracked_run(), Memory()
    follower, rows = Follower(memory, run), JsonLines(run.run_dir / "metrics.jsonl", 0)
    for step in (1, 2, 3):
        rows.append({"step": step})
    follower.catch_up()
    rows.keep_until(1)
    for step in (2, 3, 4):
        rows.append({"step": step})
    follower.catch_up()
    assert memory.steps == [1, 2, 3, 4]


def test_what_the_tracker_does_not_hold_is_logged_when_the_run_is_resumed(tracked_run):
    run = tracked_run(start_step=4)
    rows = JsonLines(run.run_dir / "metrics.jsonl", 0)
    for step in (1, 2, 3, 4):
        rows.append({"step": step, "held_out_loss": 1.0, "held_out_loss_ema": 1.0})
    held = {(step, "eval/eval_loss") for step in (1, 2, 3, 4)}
    held |= {(step, "eval/eval_loss_ema") for step in (1, 2, 3)}
    memory = Memory(Sent(last_step=2, evaluated=held))
    Follower(memory, run).catch_up()
    assert memory.steps == [3, 4]
    assert memory.evaluations == [(4, {"eval/eval_loss_ema"}, None)]


def test_a_tracker_that_knows_only_its_last_step_gets_later_evaluations(tracked_run):
    run = tracked_run(start_step=2)
    rows = JsonLines(run.run_dir / "metrics.jsonl", 0)
    for step in (1, 2, 3):
        rows.append({"step": step, "held_out_loss": 1.0})
    memory = Memory(Sent(last_step=2, evaluated_until=2))
    Follower(memory, run).catch_up()
    assert memory.evaluations == [(3, {"eval/eval_loss"}, None)]


def test_scores_that_come_late_are_logged_at_their_step_with_their_video(tracked_run):
    run, memory = tracked_run(), Memory()
    follower, rows = Follower(memory, run), JsonLines(run.run_dir / "metrics.jsonl", 0)
    rows.append({"step": 1, "held_out_loss": 1.0})
    rows.append({"step": 2})
    follower.catch_up()
    (run.eval_dir / "1").mkdir(parents=True)
    (run.eval_dir / "1" / "eval_episode_0.mp4").touch()
    rows.amend(1, {"eval_success": 0.5})
    follower.catch_up()
    follower.catch_up()
    late = (1, {"eval/pc_success"}, "eval_episode_0.mp4")
    assert memory.evaluations == [(1, {"eval/eval_loss"}, None), late]


def test_checkpoints_are_logged_from_the_one_that_was_resumed(tracked_run):
    run = tracked_run(start_step=4)
    memory = Memory(Sent(checkpoints={"000004"}))
    follower = Follower(memory, run)
    folder = run.run_dir / "checkpoints"
    for step in ("000002", "000004", "000006"):
        (folder / step).mkdir(parents=True)
        replace_symlink(folder / "last", step)
    follower.catch_up()
    (folder / "000008").mkdir()
    replace_symlink(folder / "last", "000008")
    follower.catch_up()
    assert memory.checkpoints == ["000006", "000008"]


def test_a_run_is_followed_to_its_end(tracked_run):
    run, memory = tracked_run(), Memory()
    rows = JsonLines(run.run_dir / "metrics.jsonl", 0)

    def ends_within(seconds: float) -> bool:
        assert seconds > 0
        rows.append({"step": len(memory.steps) + 1})
        return len(memory.steps) == 2

    follow(memory, run, ends_within)
    assert memory.steps == [1, 2, 3]
