"""Findings that are alike."""

from manyhands.data.checking.faults import episode_ranges, faults_of, num_faults
from manyhands.data.checking.finding import Finding


def missing(episode, file):
    return Finding(
        "files", "bad", f"{file} is missing", episode, file, None, (episode, episode + 1)
    )


def test_one_file_is_one_fault_however_many_episodes_it_has():
    findings = [missing(each, "a.mp4") for each in range(3)]
    (fault,) = faults_of(findings)
    assert fault.text == "episodes 0 to 2: a.mp4 is missing"
    assert num_faults(findings) == 1


def test_files_that_fail_alike_share_a_line_and_count_each():
    findings = [missing(each, f"{each}.mp4") for each in (0, 1, 7)]
    (fault,) = faults_of(findings)
    assert fault.text == "episodes 0 to 1, 7: 0.mp4 is missing, and 2 more files likewise"
    assert fault.files == ["0.mp4", "1.mp4", "7.mp4"]
    assert num_faults(findings) == 3


def test_other_messages_are_other_faults():
    odd = Finding("files", "bad", "a.mp4 is empty", 1, "a.mp4")
    assert len(faults_of([missing(0, "a.mp4"), odd])) == 2


def test_a_fault_of_the_dataset_names_no_episode():
    (fault,) = faults_of([Finding("metadata", "warning", "odd", None, "meta/info.json")])
    assert fault.text == "meta/info.json: odd" and fault.episodes == []


def test_many_ranges_are_cut():
    assert episode_ranges([0, 2, 3, 4, 9]) == "0, 2 to 4, 9"
    assert episode_ranges([0, 2, 4, 5], limit=2) == "0, 2 and 2 more"
