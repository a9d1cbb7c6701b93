"""Tasks as tokens."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

from manyhands.errors import UserError, WeightsUnavailable
from manyhands.lerobot_format.names import LANGUAGE_MASK, LANGUAGE_TOKENS
from manyhands.lerobot_format.policy.processors import TokenizerStep
from manyhands.policies.language import Language

PAD = 2


@pytest.fixture
def tokenizing(tiny_vlm):
    return TokenizerStep(str(tiny_vlm), max_length=8, padding="longest")


def read(tokenizing, *tasks: str, **options):
    found = Language(tokenizing).tokens_of({"task": list(tasks)}, **options)
    return found[LANGUAGE_TOKENS], found[LANGUAGE_MASK]


def test_every_task_ends_with_one_new_line(tokenizing):
    tokens, mask = read(tokenizing, "go", "go\n")
    assert torch.equal(tokens[0], tokens[1])
    assert tokens.shape == (2, 3) and mask.all()
    plain, _ = read(replace(tokenizing, ends_lines=False), "go")
    assert torch.equal(plain[0], tokens[0, :2])


def test_shorter_tasks_are_padded_to_the_longest(tokenizing):
    tokens, mask = read(tokenizing, "go", "lift")
    assert tokens.dtype is torch.int64 and mask.dtype is torch.bool
    assert mask.tolist() == [[True] * 3 + [False] * 2, [True] * 5]
    assert tokens[0, 3:].tolist() == [PAD, PAD]


def test_padding_may_stand_before_a_task(tokenizing):
    tokens, mask = read(replace(tokenizing, padding_side="left"), "go", "lift")
    assert mask[0].tolist() == [False] * 2 + [True] * 3
    assert tokens[0, :2].tolist() == [PAD, PAD]


def test_all_tasks_have_the_largest_length_where_that_is_asked(tokenizing):
    assert read(replace(tokenizing, padding="max_length"), "go")[0].shape == (1, 8)
    tokens, mask = read(tokenizing, "go", at_full_length=True)
    assert tokens.shape == (1, 8) and mask.sum() == 3


def test_long_tasks_lose_the_side_that_the_tokenizer_says(tokenizing, tiny_vlm, tmp_path):
    whole, _ = read(replace(tokenizing, max_length=40), "pick up the cube")
    left, _ = read(tokenizing, "pick up the cube")
    assert torch.equal(left[0], whole[0, -8:])

    folder = shutil.copytree(tiny_vlm, tmp_path / "other")
    settings = {"pad_token": {"content": "<|im_end|>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    right, _ = read(replace(tokenizing, tokenizer_name=str(folder)), "pick up the cube")
    assert torch.equal(right[0], whole[0, :8])


def test_one_text_is_the_task_of_all_samples(tokenizing):
    batch = {"observation.state": torch.zeros(3, 2), "task": "go"}
    assert Language(tokenizing).tokens_of(batch)[LANGUAGE_TOKENS].shape == (3, 3)


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        ({"action": 1}, "must contain task, one string per sample; it has action"),
        ({"task": [1]}, r"it has \[1\] there"),
        ({"task": None}, "it has None there"),
    ],
)
def test_a_batch_without_tasks_is_refused(tokenizing, batch, told):
    with pytest.raises(UserError, match=told):
        Language(tokenizing).tokens_of(batch)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_missing_files_are_told_with_the_place_for_them(tokenizing, tiny_vlm, tmp_path, name):
    folder = shutil.copytree(tiny_vlm, tmp_path / "other")
    (folder / name).unlink()
    with pytest.raises(WeightsUnavailable, match=rf"{folder / name} is missing\. Add it, or"):
        Language(replace(tokenizing, tokenizer_name=str(folder))).check()


def test_files_that_do_not_belong_together_are_refused(tokenizing, tiny_vlm, tmp_path):
    folder = shutil.copytree(tiny_vlm, tmp_path / "other")
    (folder / "tokenizer_config.json").write_text('{"pad_token": "<pad>"}')
    with pytest.raises(WeightsUnavailable, match=r"pad_token '<pad>' is not in tokenizer\.json"):
        Language(replace(tokenizing, tokenizer_name=str(folder))).check()
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(WeightsUnavailable, match="is not a tokenizer"):
        Language(replace(tokenizing, tokenizer_name=str(folder))).check()


def test_a_tokenizer_in_the_policys_own_folder_comes_first(tokenizing, tiny_vlm):
    language = Language(replace(tokenizing, tokenizer_name="nowhere/at_all", folder=tiny_vlm))
    tokens = language.tokens_of({"task": ["go", "lift"]})[LANGUAGE_TOKENS]
    assert tokens[0, -1] == PAD
