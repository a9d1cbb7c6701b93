"""`--help`: essentials by task, or the flags of a topic."""

import pytest

from manyhands.config.essentials import ESSENTIALS
from manyhands.config.schema.decoding import flags_of
from manyhands.config.schema.help import ALL, flag_groups, help_text
from manyhands.config.train import TrainConfig
from manyhands.errors import ConfigError

SCREEN = 40  # Lines of a terminal window.


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def test_help_is_one_screen_of_essentials():
    lines = help_text(TrainConfig, "usage", essentials=ESSENTIALS).splitlines()
    assert len(lines) <= SCREEN
    assert max(map(len, lines)) < 80


def test_help_fits_a_narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = help_text(TrainConfig, "usage", essentials=ESSENTIALS).splitlines()
    assert max(map(len, lines)) < 60


def test_prose_is_wrapped_as_a_whole_and_commands_by_themselves(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    usage = f"manyhands a {'--b ' * 20}\nmanyhands c\n\n{'word ' * 19}\n{'word ' * 19}"
    commands, prose, *_ = help_text(TrainConfig, usage, ALL).split("\n\n")
    assert [line.startswith("  ") for line in commands.splitlines()] == [False, True, False]
    *full, last = prose.splitlines()
    assert {*map(len, full)} == {len("word " * 12) - 1}
    assert last and not last.startswith(" ")


def test_all_names_every_flag_once_in_its_section():
    lines = help_text(TrainConfig, "usage", ALL).splitlines()
    names = [line.split()[0] for line in lines if line.startswith("  --")]
    assert {f"--{flag.name}" for flag in flags_of(TrainConfig)} == {*names}
    assert max(map(len, lines)) < 80
    shared = [flag.name for flag in flag_groups(TrainConfig)["policy"]]
    assert "policy.device" in shared
    assert all(names.count(f"--{name}") == 1 for name in shared)


def test_a_topic_is_a_section_a_choice_or_a_flag():
    assert "  --dataset.root" in help_text(TrainConfig, "", "dataset")
    assert "  --seed" not in help_text(TrainConfig, "", "dataset")
    act = help_text(TrainConfig, "", "policy.act")
    assert "  --policy.chunk_size" in act and "  --policy.device" in act
    assert "  --policy.horizon" not in act
    assert help_text(TrainConfig, "", "seed").splitlines() == [
        "run:",
        "  --seed                        Seed of weights, data order and noise. [1000]",
    ]


def test_an_unknown_topic_is_refused_with_the_nearest_one():
    with pytest.raises(ConfigError, match=r"--help=datset .* Did you mean --help=dataset\?"):
        help_text(TrainConfig, "", "datset")
    with pytest.raises(ConfigError, match=r"Topics: run, dataset, policy, policy\.act"):
        help_text(TrainConfig, "", "xyz")


@pytest.mark.parametrize(
    ("topic", "meant"),
    [
        ("chunk_size", "--help=policy.chunk_size"),
        ("lr", "--help=optimizer.lr or --help=scaling.lr"),
    ],
)
def test_the_last_word_of_a_flag_leads_to_its_topic(topic, meant):
    with pytest.raises(ConfigError) as error:
        help_text(TrainConfig, "", topic)
    assert str(error.value) == f"--help={topic} is no topic and no flag. Did you mean {meant}?"


def test_help_shows_defaults():
    text = " ".join(help_text(TrainConfig, "", ALL).split())
    assert "[brightness, contrast, saturation, hue, sharpness, affine]" in text
    assert "Seed of weights, data order and noise. [1000]" in text
