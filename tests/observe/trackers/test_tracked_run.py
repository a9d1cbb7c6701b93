"""What trackers know of a run."""

import pickle
from dataclasses import replace


def test_samples_count_from_the_position_of_the_resumed_run(tracked_run):
    # The batch may have been another before it was resumed.
    run = replace(tracked_run(), start_step=10, start_samples=100)
    assert [run.samples_at(step) for step in (10, 12)] == [100, 108]


def test_the_video_of_an_evaluation_is_its_first(tracked_run):
    run = tracked_run()
    assert run.video_of(5) is None
    folder = run.eval_dir / "5" / "videos"
    folder.mkdir(parents=True)
    for name in ("eval_episode_3.mp4", "eval_episode_1.mp4"):
        (folder / name).touch()
    assert run.video_of(5) == folder / "eval_episode_1.mp4"


def test_it_can_be_sent_to_a_process(tracked_run):
    run = tracked_run("--ema.enable=true")
    assert pickle.loads(pickle.dumps(run)) == run
