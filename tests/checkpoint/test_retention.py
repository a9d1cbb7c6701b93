"""Which checkpoints stay."""

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from manyhands.checkpoint.retention import (
    SavedCheckpoint,
    add_scores,
    apply_retention,
    best_checkpoint,
    expired,
    remove,
    remove_leftovers,
)
from manyhands.config.runs.run_dir import checkpoint_dir
from manyhands.config.train import TrainConfig
from manyhands.manifest import MANIFEST, describe_folder, find_damage, manifest_text

KEEPING = TrainConfig(keep_last=2, keep_every=100, keep_best="held_out_loss")


def save(run_dir: Path, step: int, **scores: float) -> Path:
    """A small checkpoint with a manifest."""
    folder = checkpoint_dir(run_dir, step, 1000)
    for part in ("pretrained_model", "training_state"):
        (folder / part).mkdir(parents=True)
    facts = {"step": step, "saved_at": float(step), "scores": scores}
    (folder / MANIFEST).write_text(manifest_text(facts, describe_folder(folder)))
    return folder


@given(
    steps=st.lists(st.integers(1, 500), min_size=1, unique=True),
    keep_last=st.integers(1, 4),
    keep_every=st.integers(0, 100),
)
def test_the_last_and_every_so_many_stay(steps, keep_last, keep_every):
    saved = [SavedCheckpoint(Path(str(step)), step, {}) for step in sorted(steps, reverse=True)]
    config = replace(KEEPING, keep_last=keep_last, keep_every=keep_every)
    gone = expired(saved, config)
    assert not set(map(id, gone)) & set(map(id, saved[:keep_last]))
    assert all(keep_every == 0 or each.step % keep_every for each in gone)
    stays = [each for each in saved if each not in gone][keep_last:]
    assert all(each.step % keep_every == 0 for each in stays)


def test_all_stay_unless_asked(tmp_path):
    saved = [SavedCheckpoint(tmp_path, step, {}) for step in (3, 2, 1)]
    assert expired(saved, TrainConfig()) == []


def test_the_best_is_the_lowest_loss_and_the_highest_success():
    saved = [
        SavedCheckpoint(Path("c"), 3, {"held_out_loss": 0.5, "eval_success": 0.1}),
        SavedCheckpoint(Path("b"), 2, {"held_out_loss": 0.4, "eval_success": 0.9}),
        SavedCheckpoint(Path("a"), 1, {"held_out_loss": 0.4}),
        SavedCheckpoint(Path("0"), 0, {}),
    ]
    assert best_checkpoint(saved, "held_out_loss") is saved[2]
    assert best_checkpoint(saved, "success") is saved[1]
    assert best_checkpoint(saved, None) is None


def test_scores_that_come_later_decide_too(tmp_path):
    for step in (100, 200, 300):
        save(tmp_path, step, held_out_loss=1.0)
    add_scores(tmp_path, 200, {"held_out_loss": 0.5})
    apply_retention(tmp_path, KEEPING)
    assert (tmp_path / "checkpoints/best").readlink() == Path("000200")
    assert find_damage(tmp_path / "checkpoints/000200") is None


def test_a_checkpoint_stays_while_its_score_is_measured(tmp_path):
    for step in (50, 150, 250, 350):
        save(tmp_path, step)
    apply_retention(tmp_path, KEEPING, unscored={150})
    names = [path.name for path in (tmp_path / "checkpoints").iterdir()]
    assert sorted(names) == ["000150", "000250", "000350"]


def test_a_run_is_tidied_up(tmp_path):
    losses = {50: 0.9, 100: 0.8, 150: 0.2, 200: 0.5, 250: 0.6, 300: 0.7}
    for step, loss in losses.items():
        save(tmp_path, step, held_out_loss=loss)
    foreign = tmp_path / "checkpoints/000010"
    for part in ("pretrained_model", "training_state"):
        (foreign / part).mkdir(parents=True)
    apply_retention(tmp_path, KEEPING)
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["000010", "000100", "000150", "000200", "000250", "000300", "best"]
    assert (tmp_path / "checkpoints/best").readlink() == Path("000150")


def test_what_a_crash_left_is_swept_away(tmp_path):
    folder = save(tmp_path, 50)
    for name in (".000100.partial", ".000100.shards", ".000020.removed"):
        (folder.parent / name / "deep").mkdir(parents=True)
    (folder.parent / ".notes").mkdir()
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in folder.parent.iterdir()) == [".notes", "000050"]
    remove(folder)
    assert not folder.exists()
