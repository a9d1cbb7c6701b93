"""Flags that have no effect beside others."""

import pytest

from manyhands.config.resolve import read_train_config
from manyhands.config.unused_flags import RULES, unused_flag_notes

BASE = ["--policy=act", "--dataset.root=x"]


@pytest.mark.parametrize(
    ("flags", "note"),
    [
        (["--max_eval_samples=5"], "--max_eval_samples=5 has no effect without --eval_steps"),
        (["--dataset.max_bad=0.5"], "has no effect without --dataset.on_bad=skip"),
        (["--save_checkpoint=false", "--keep_last=2"], "--keep_last=2 has no effect with --save"),
        (["--num_workers=0", "--prefetch_factor=8"], "has no effect with --num_workers=0"),
        (["--cache.mode=off", "--cache.encoding=jpeg"], "has no effect with --cache.mode=off"),
        (["--cache.mode=ram", "--cache.max_disk=1GiB"], "has no effect with --cache.mode=ram"),
        (["--step.mode=eager", "--step.compile_min_left_s=9"], "without --step.mode=auto"),
        (["--wandb.project=pick"], "--wandb.project=pick has no effect without --wandb.enable"),
        (["--tensorboard.folder=tb"], "without --tensorboard.enable=true"),
        (["--trackio.space_id=me/x"], "without --trackio.enable=true"),
        (["--dataset.eval_split=0.2"], "but nothing evaluates them. Set --eval_steps"),
    ],
)
def test_a_flag_without_effect_is_noted(flags, note):
    (found,) = unused_flag_notes(read_train_config([*BASE, *flags]))
    assert found.startswith("NOTE: --") and note in found


def test_a_plain_run_has_no_notes():
    assert unused_flag_notes(read_train_config(BASE)) == []
    measured = ["--dataset.eval_split=0.2", "--eval_steps=10", "--max_eval_samples=5"]
    assert unused_flag_notes(read_train_config([*BASE, *measured])) == []
    assert len(RULES) >= 10
