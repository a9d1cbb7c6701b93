"""Dataclasses as flags and back."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.base import PolicyConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.schema.decoding import (
    Decoder,
    RawText,
    decode_value,
    encode,
    flags_of,
    type_name,
)
from manyhands.config.train import TrainConfig


def test_every_flag_has_help():
    assert [flag.name for flag in flags_of(TrainConfig) if not flag.help] == []


@pytest.mark.parametrize(
    ("hint", "text", "value"),
    [
        (int, "8", 8),
        (float, "2e-4", 2e-4),
        (bool, "true", True),
        (str, "007", "007"),
        (str | None, "null", None),
        (Path | None, "a/b", Path("a/b")),
        (list[int] | None, "[3, 7]", [3, 7]),
        (tuple[float, float], "[0.9, 0.99]", (0.9, 0.99)),
        (bool | str, "true", True),
        (bool | str, "runs/a", "runs/a"),
    ],
)
def test_text_becomes_the_declared_type(hint, text, value):
    assert decode_value(hint, RawText(text)) == value


@pytest.mark.parametrize(
    ("flag", "text", "words"),
    [
        ("log_freq", "many", "an integer"),
        ("log_freq", "null", "an integer"),
        ("log_freq", "1.5", "an integer"),
        ("audit", "perhaps", "true or false"),
        ("num_workers", "x", "an integer or null"),
    ],
)
def test_an_ill_typed_value_is_told_in_plain_words(flag, text, words):
    decoder = Decoder(TrainConfig)
    decoder.section(TrainConfig, {flag: RawText(text)})
    assert decoder.faults == [f"--{flag}={text}: expects {words}"]


def test_an_unknown_name_is_told_with_the_nearest_one():
    decoder = Decoder(TrainConfig)
    decoder.section(TrainConfig, {"batchsize": 8, "dataset": {"rot": "x"}, "zzzzzz": 1})
    assert decoder.faults == [
        "unknown flag --batchsize; did you mean --batch_size?",
        "unknown flag --dataset.rot; did you mean --dataset.root?",
        "unknown flag --zzzzzz; see --help=all",
    ]


def test_an_unknown_type_is_told_with_the_known_ones():
    decoder = Decoder(TrainConfig)
    assert decoder.choice(PolicyConfig, {"type": "atc"}, "policy") is None
    assert "did you mean act?" in decoder.faults[0]


@pytest.mark.parametrize(
    ("policy", "faults"),
    [
        ({"typ": "act"}, ["unknown flag --policy.typ; did you mean --policy.type?"]),
        ({"chunk_size": 8}, ["--policy.chunk_size needs --policy.type=act|diffusion|smolvla"]),
        ({"type": None}, ["--policy.type needs --policy.type=act|diffusion|smolvla"]),
        (
            {"dropout": 0.1, "chunk_szie": 8, "chunk_size": 8},
            [
                "unknown flag --policy.chunk_szie; did you mean --policy.chunk_size?",
                "--policy.dropout needs --policy.type=act|diffusion|smolvla",
            ],
        ),
    ],
)
def test_without_a_type_only_flags_of_some_type_need_it(policy, faults):
    decoder = Decoder(TrainConfig)
    decoder.section(TrainConfig, {"policy": policy})
    assert decoder.faults == faults


@given(
    chunk=st.integers(1, 500),
    dropout=st.floats(0, 0.9),
    path=st.none() | st.just(Path("a/b")),
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=3),
)
def test_encode_and_decode_are_inverse(chunk, dropout, path, shape):
    features = {"observation.state": PolicyFeature(FeatureType.STATE, tuple(shape))}
    config = TrainConfig(
        policy=ActConfig(
            chunk_size=chunk, dropout=dropout, pretrained_path=path, input_features=features
        )
    )
    decoder = Decoder(TrainConfig)
    assert decoder.section(TrainConfig, encode(config)) == config
    assert decoder.faults == []


def test_type_name_speaks_of_null_where_null_is_allowed():
    assert type_name(float | None) == "a number or null"


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (list[int] | None, "a list such as [0,1,2] or null"),
        (list[str] | str, "a list such as [a,b] or text"),
        (tuple[int, int], "two integers such as [480,640]"),
        (Path | None, "a path or null"),
        (dict[str, float], "a mapping such as {name: value}"),
        (
            dict[str, FeatureType],
            "a mapping such as {name: STATE|VISUAL|ENV|ACTION|REWARD|LANGUAGE}",
        ),
    ],
)
def test_type_name_shows_the_form_of_lists_and_mappings(hint, words):
    assert type_name(hint) == words


def test_every_flag_of_training_has_a_type_with_words():
    assert not [flag.name for flag in flags_of(TrainConfig) if "[str" in type_name(flag.type)]


@pytest.mark.parametrize("number", [10**5000, -(10**5000)], ids=["large", "negative"])
def test_a_number_that_python_does_not_print_is_told(number):
    decoder = Decoder(TrainConfig)
    decoder.section(TrainConfig, {"steps": number})
    (fault,) = decoder.faults
    told = "expects an integer of at most 64 bits"
    assert fault == f"--steps=(a number of thousands of digits): {told}"


@pytest.mark.parametrize("name", ["steps", "seed", "epochs", "batch_size"])
def test_a_number_that_no_float_holds_is_refused(name):
    decoder = Decoder(TrainConfig)
    decoder.section(TrainConfig, {name: RawText("9" * 400)})
    (fault,) = decoder.faults
    assert fault.startswith(f"--{name}=999") and "expects " in fault


def test_a_long_value_is_told_by_its_start():
    decoder = Decoder(TrainConfig)
    decoder.section(TrainConfig, {"steps": "x" * 10**6, "policy": {"type": "y" * 10**6}})
    assert len(decoder.faults) == 2 and max(map(len, decoder.faults)) < 1000


@dataclass(frozen=True)
class Aside:
    """A section with a keyword of Python."""

    async_: bool = False
    """Do it aside."""


def test_a_field_named_like_a_keyword_is_typed_and_stored_without_its_underscore():
    assert [flag.name for flag in flags_of(Aside)] == ["async"]
    decoder = Decoder(Aside)
    assert decoder.section(Aside, {"async": RawText("true")}) == Aside(async_=True)
    assert encode(Aside(async_=True)) == {"async": True}
    decoder.section(Aside, {"async_": RawText("true")})
    assert decoder.faults == ["unknown flag --async_; did you mean --async?"]
