"""Commands against contradictions."""

from pathlib import Path

from manyhands.lerobot_format.dataset.repairing import contradiction_remedy, repair_command


def test_a_copy_is_repaired_beside_the_original():
    assert repair_command("/data/my pick/") == (
        "manyhands convert --repair --dataset.root='/data/my pick' "
        "--output_dir='/data/my pick_repaired'"
    )


def test_statistics_are_computed_again_and_the_rest_is_repaired():
    root = Path("/data/pick")
    assert contradiction_remedy(root, root / "meta/stats.json").endswith(
        "rm /data/pick/meta/stats.json"
    )
    assert "convert --repair" in contradiction_remedy(root, root / "meta/tasks.parquet")
