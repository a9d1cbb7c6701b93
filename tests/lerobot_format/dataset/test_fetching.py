"""Commands that fetch files again."""

from manyhands.lerobot_format.dataset.fetching import AGAIN, download_command, fetch_remedy
from manyhands.lerobot_format.dataset.file_condition import Condition


def test_pointers_are_pulled_in_a_repository_and_downloaded_without_one(tmp_path):
    root = tmp_path / "repository" / "data set"
    (root / "meta").mkdir(parents=True)
    file = root / "videos" / "a.mp4"
    outside = fetch_remedy(file, Condition.LFS_POINTER)
    assert "archive" in outside and "hf download OWNER/NAME" in outside
    (tmp_path / "repository" / ".git").mkdir()
    assert fetch_remedy(file, Condition.LFS_POINTER) == (
        f"Run git lfs pull: git -C '{root}' lfs pull"
    )
    assert fetch_remedy(file, Condition.ANNEX_LINK).endswith(f"git -C '{root}' annex get .")


def test_a_download_is_completed_under_the_name_its_folder_tells(tmp_path):
    local = tmp_path / "pick"
    (local / ".cache/huggingface/download").mkdir(parents=True)
    assert download_command(local) == (
        f"hf download OWNER/NAME --repo-type=dataset --local-dir={local}"
    )
    home = tmp_path / "huggingface/lerobot/me/pick"
    assert download_command(home) == f"hf download me/pick --repo-type=dataset --local-dir={home}"
    cached = tmp_path / "hub/datasets--me--pick/snapshots/abc"
    assert download_command(cached) == (
        f"hf download me/pick --repo-type=dataset --revision=abc --cache-dir={tmp_path / 'hub'}"
    )


def test_a_folder_that_is_no_download_is_copied_again(tmp_path):
    assert download_command(tmp_path) is None
    assert fetch_remedy(tmp_path / "a.mp4", Condition.MISSING) == AGAIN
