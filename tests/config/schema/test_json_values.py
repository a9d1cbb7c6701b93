"""JSON values become what dataclasses declare, or a fault that names itself."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from manyhands.config.policies.features import FeatureType, NormalizationMode, PolicyFeature
from manyhands.config.schema.json_values import closest_match, decode, unknown_name


@pytest.mark.parametrize(
    ("hint", "raw", "value"),
    [
        (int, 3, 3),
        (int, True, 1),
        (float, 2, 2.0),
        (bool, False, False),
        (str | None, None, None),
        (Path | None, "a/b", Path("a/b")),
        (list[str], ["a"], ["a"]),
        (tuple[int, ...], [3, 4, 5], (3, 4, 5)),
        (tuple[float, float], [0.9, 1], (0.9, 1.0)),
        (dict[str, NormalizationMode], {"STATE": "MIN_MAX"}, {"STATE": NormalizationMode.MIN_MAX}),
        (
            dict[str, PolicyFeature],
            {"action": {"type": "ACTION", "shape": [4]}},
            {"action": PolicyFeature(FeatureType.ACTION, (4,))},
        ),
    ],
)
def test_values_take_the_declared_type(hint, raw, value):
    decoded = decode(hint, raw)
    assert decoded == value
    assert type(decoded) is type(value)


@pytest.mark.parametrize(
    ("hint", "raw", "words"),
    [
        (int, 8.0, "x must be an integer, not 8.0"),
        (int, None, "x must be an integer"),
        (float, True, "x must be a number"),
        (float, "1", "x must be a number"),
        (bool, 1, "x must be true or false"),
        (str, 3, "x must be text"),
        (Path, 3, "x must be text"),
        (list[str], "ab", "x must be a list"),
        (tuple[float, float], [1.0], "x must have 2 values, not 1"),
        (dict[str, int], [], "x must be an object"),
        (dict[str, int], {"a": "b"}, "x.a must be an integer"),
        (NormalizationMode, "min_max", "x is 'min_max', not one of MIN_MAX"),
        (PolicyFeature, {"type": "STATE", "shape": [3], "size": 1}, "unknown key x.size"),
        (PolicyFeature, {"type": "STATE"}, "x is incomplete.*shape"),
        (PolicyFeature, {"type": "STATE", "shape": [3.0]}, "x.shape.0 must be an integer"),
    ],
)
def test_what_does_not_fit_is_named(hint, raw, words):
    with pytest.raises(ValueError, match=words):
        decode(hint, raw, "x")


def test_missing_keys_keep_their_defaults():
    @dataclass(frozen=True)
    class Sizes:
        height: int = 480
        width: int = 640

    assert decode(Sizes, {"width": 96}) == Sizes(480, 96)


def test_only_an_alike_name_is_proposed():
    assert closest_match("chunk_sise", ["chunk_size", "dropout"]) == "; did you mean chunk_size?"
    assert closest_match("zzz", ["chunk_size", "dropout"]) == ""


def test_an_unknown_name_is_told_with_all_that_are_known():
    assert (
        unknown_name("zzz", iter(["act", "diffusion"]))
        == "zzz is unknown; choose from act, diffusion"
    )
    assert unknown_name("atc", ["act"]) == "atc is unknown; choose from act; did you mean act?"
