"""Faults are listed once, with all their episodes."""

from manyhands.data.repairing.report import RepairReport


def test_the_same_fault_of_several_episodes_is_one_entry():
    report = RepairReport()
    report.add("column index", "missing", "rebuilt", [0])
    report.add("column index", "missing", "rebuilt", [1, 0])
    report.drop("a.mp4", "is empty", [4, 2])
    report.drop("b.mp4", "is empty", [2])
    assert [each.episodes for each in report.repairs] == [(0, 1), (4, 2), (2,)]
    assert report.dropped_episodes == [2, 4]
    document = report.document()
    assert document["dropped_episodes"] == [2, 4]
    assert document["repairs"][1] == {
        "where": "a.mp4",
        "fault": "is empty",
        "repair": "episode dropped",
        "episodes": (4, 2),
    }
