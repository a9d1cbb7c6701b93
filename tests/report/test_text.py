"""Texts are bounded."""

import pytest

from manyhands.report.text import LONGEST, clipped, clipped_apart


def test_a_short_text_is_itself_and_a_long_one_shows_that_it_goes_on() -> None:
    assert clipped("plain") == "plain"
    assert clipped(7) == "7"
    assert clipped("x" * 10_000) == "x" * (LONGEST - 1) + "…"
    assert clipped("abcdef", 3) == "ab…"


SWEEP = "act_pusht_learning_rate_0.0001_batch_size_64_warmup_500_weight_decay_0.01_augmented_"


@pytest.mark.parametrize(
    ("texts", "visible"),
    [
        (["a", "b"], ["a", "b"]),
        ([f"{SWEEP}seed_{seed}" for seed in (1, 2)], ["seed_1", "seed_2"]),
        ([f"{lr}_{SWEEP}{SWEEP}{lr}" for lr in ("1e-4", "1e-5")], ["1e-4", "1e-5"]),
        ([f"a{end}_{SWEEP}_{end}" for end in "12"] + [f"a1_{SWEEP}_2"], ["a1", "a2", "_2"]),
    ],
)
def test_texts_clipped_apart_show_what_differs(texts: list[str], visible: list[str]) -> None:
    found = clipped_apart(texts, 60)
    assert all(word in text for word, text in zip(visible, found, strict=True))
    assert len(set(found)) == len(texts) and max(map(len, found)) <= 60


def test_texts_that_only_differ_deep_inside_are_numbered() -> None:
    long = "x" * 100
    texts = [f"{start}{long}{middle}{long}" for start in "ab" for middle in "12"]
    found = clipped_apart(texts, 60)
    assert [text.partition(":")[0] for text in found] == ["1", "2", "3", "4"]
    assert max(map(len, found)) <= 60
