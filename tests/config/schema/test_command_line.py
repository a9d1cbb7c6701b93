"""The command line as raw values."""

import pytest

from manyhands.config.schema.command_line import merge_trees, read_flags, set_value
from manyhands.errors import ConfigError


@pytest.mark.parametrize(
    "argv",
    [
        ["--policy.type=act", "--batch_size=16"],
        ["--policy.type", "act", "--batch_size", "16"],
        ["policy.type=act", "batch_size=16"],
        ["--policy=act", "batch_size=16"],
        ["--policy=act", "--batch-size=16"],
        ["--policy=act", "--batch-size", "16"],
    ],
)
def test_all_spellings_mean_the_same(argv):
    assert read_flags(argv).tree == {"policy": {"type": "act"}, "batch_size": "16"}


def test_a_flag_without_a_value_means_true():
    assert read_flags(["--audit", "--steps=3"]).tree == {"audit": "true", "steps": "3"}
    assert read_flags(["--steps=3", "--audit"]).tree == {"steps": "3", "audit": "true"}


def test_names_that_people_give_keep_their_dashes():
    tree = read_flags(["--tfs.my-own.weight=2", "--with-loader"]).tree
    assert tree == {"tfs": {"my-own": {"weight": "2"}}, "with_loader": "true"}


def test_two_names_after_compare_are_one_value():
    assert read_flags(["--compare", "a", "b c", "--seed=3"]).tree == {
        "compare": '["a", "b c"]',
        "seed": "3",
    }
    assert read_flags(["--compare=[a,b]"]).tree == {"compare": "[a,b]"}
    assert read_flags(["--compare", "a", "--seed=3"]).tree == {"compare": '["a"]', "seed": "3"}


def test_a_negative_number_is_a_value():
    assert read_flags(["--steps", "-3"]).tree == {"steps": "-3"}


def test_switches_ask_for_an_answer_and_set_nothing():
    line = read_flags(["-h", "--print_config", "--config", "run.yaml"])
    assert line.switches == {"help", "print_config"}
    assert line.tree == {"config_path": "run.yaml"}


def test_values_may_hold_equal_signs_and_spaces():
    assert read_flags(["--job_name=a=b c"]).tree == {"job_name": "a=b c"}


def test_every_stray_word_is_named():
    with pytest.raises(ConfigError) as caught:
        read_flags(["act", "-x=1", "--steps=3"])
    assert [fault.split()[0] for fault in caught.value.faults] == ["act", "-x=1"]


def test_overlay_keeps_what_the_upper_tree_does_not_mention():
    below = {"policy": {"type": "act", "dropout": 0.2}, "steps": 5}
    assert merge_trees(below, {"policy": {"dropout": 0.0}}) == {
        "policy": {"type": "act", "dropout": 0.0},
        "steps": 5,
    }


def test_overlay_starts_a_section_afresh_when_its_type_changes():
    below = {"optimizer": {"type": "adamw", "betas": [0.5, 0.5]}}
    assert merge_trees(below, {"optimizer": {"type": "sgd"}}) == {"optimizer": {"type": "sgd"}}


def test_place_makes_sections_on_the_way():
    tree = {}
    set_value(tree, "a.b.c", 1)
    assert tree == {"a": {"b": {"c": 1}}}
