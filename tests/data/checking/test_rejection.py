"""The message of a dataset with faults."""

from manyhands.data.checking.finding import CheckResult, Finding
from manyhands.data.checking.rejection import rejection
from manyhands.data.checking.remedies import Avoidance


def result_with(*findings, num_episodes=20):
    return CheckResult("/data", "full", ("action",), num_episodes, 140, findings, {}, 0.0)


def bad(episode, message="wrong", file="data/a.parquet"):
    return Finding("numbers", "bad", message, episode, file, "action", (episode, episode + 1))


def test_a_refusal_names_faults_and_every_episode_in_one_list():
    faults = [bad(number, f"frame {number}: wrong") for number in (0, 3, 6, 9, 11, 12, 13)]
    lines = rejection(result_with(*faults), limit=2).splitlines()
    assert lines == [
        "the dataset in /data has 7 faults, in 7 of 20 episodes:",
        "  episode 0, data/a.parquet: frame 0: wrong",
        "  episode 3, data/a.parquet: frame 3: wrong",
        "  and 5 more",
        "Use the other 13 episodes: --dataset.exclude_episodes=[0,3,6,9,11,12,13]",
        "Skip only the bad samples: --dataset.on_bad=skip",
        "List every finding: manyhands doctor --all --dataset.root=/data",
    ]


def test_a_missing_file_is_one_fault_with_all_its_episodes():
    findings = [
        Finding("files", "bad", "v/a.mp4 is missing", each, "v/a.mp4", "top", (each, each + 1))
        for each in (0, 1, 2, 5)
    ]
    lines = rejection(result_with(*findings)).splitlines()
    assert lines[0] == "the dataset in /data has 1 fault, in 4 of 20 episodes:"
    assert lines[1] == "  episodes 0 to 2, 5: v/a.mp4 is missing"


def test_what_was_followed_is_not_offered_again():
    done = Avoidance(skip_flag=None, excluded=[1])
    text = rejection(result_with(bad(4)), done)
    assert "on_bad" not in text
    assert "--dataset.exclude_episodes=[1,4]" in text
    assert "manyhands doctor" not in text


def test_what_cannot_be_left_out_is_not_offered():
    broken = result_with(Finding("statistics", "bad", "nonsense", file="meta/stats.json"))
    text = rejection(broken)
    assert "on_bad=skip" not in text and "exclude" not in text
    assert "meta/stats.json: nonsense" in text
