"""Commands and flags against faults."""

from manyhands.data.checking.finding import CheckResult, Finding
from manyhands.data.checking.remedies import Avoidance, exclude_flag, limit_flag, remedies

ALL = Avoidance(lists_all=True)


def result_with(root, *findings, num_episodes=4, num_lost_frames=0):
    return CheckResult(
        str(root), "full", (), num_episodes, 40, findings, {}, 0.0, num_lost_frames=num_lost_frames
    )


def lost(path, episode, check="files"):
    frames = (episode * 10, episode * 10 + 10)
    return Finding(check, "bad", f"{path} is missing", episode, path, None, frames)


def test_episodes_are_listed_once_and_sorted():
    assert exclude_flag("--x", [3, 1, 3]) == "--x=[1,3]"


def test_a_limit_is_rounded_up():
    assert limit_flag(0.231) == "--dataset.max_bad=0.24"
    assert limit_flag(0.999) == "--dataset.max_bad=1"


def test_more_than_the_limit_is_offered_with_the_limit_that_allows_it(tmp_path):
    result = result_with(tmp_path, lost("a.mp4", 0))
    within, above = (remedies(result, Avoidance(max_bad=share)) for share in (0.5, 0.1))
    assert "Skip only the bad samples: --dataset.on_bad=skip" in within
    assert any(line.endswith("--dataset.on_bad=skip --dataset.max_bad=0.26") for line in above)


def test_episodes_that_nothing_lists_can_be_accepted(tmp_path):
    finding = Finding("episodes", "bad", "9 counted", None, "meta/info.json", None, (40, 40))
    result = result_with(tmp_path, finding, num_lost_frames=60)
    assert remedies(result, Avoidance(lists_all=True, max_bad=0.1)) == [
        "Accept what is missing: --dataset.on_bad=skip --dataset.max_bad=0.61"
    ]


def test_a_folder_beside_its_place_is_moved_before_anything_is_given_up(tmp_path):
    (tmp_path / "video/top").mkdir(parents=True)
    (tmp_path / "video/top/a.mp4").write_bytes(b"x")
    first = remedies(result_with(tmp_path, lost("videos/top/a.mp4", 0)), ALL)[0]
    assert first == f"Move the folder to its place: mv {tmp_path}/video {tmp_path}/videos"


def test_pointers_are_fetched_first(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "meta").mkdir()
    (tmp_path / "a.mp4").write_text("version https://git-lfs.github.com/spec/v1\nsize 5\n")
    first = remedies(result_with(tmp_path, lost("a.mp4", 0)), ALL)[0]
    assert first == f"Run git lfs pull: git -C {tmp_path} lfs pull"


def test_contradictions_are_repaired_in_a_copy(tmp_path):
    findings = [lost("a.parquet", each, "numbering") for each in range(4)]
    assert remedies(result_with(tmp_path, *findings), ALL) == [
        f"Repair a copy: manyhands convert --repair --dataset.root={tmp_path} "
        f"--output_dir={tmp_path}_repaired"
    ]


def test_a_dataset_that_is_lost_must_be_copied_again(tmp_path):
    findings = [lost("a.parquet", each) for each in range(4)]
    assert remedies(result_with(tmp_path, *findings), ALL) == ["Copy or download the dataset again"]
