"""A field may take flags of other names, and is none itself."""

from dataclasses import dataclass, field

from manyhands.config.schema.decoding import Decoder, flags_of
from manyhands.config.schema.flag_fields import TAKES_OTHERS, flag_fields


@dataclass(frozen=True)
class Config:
    speed: int = 1
    others: dict[str, str] = field(
        default_factory=dict, metadata={TAKES_OTHERS: lambda: ["a", "b"]}
    )


def test_the_field_that_takes_others_is_no_flag():
    assert [item.name for item in flag_fields(Config)] == ["speed"]
    assert [flag.name for flag in flags_of(Config)] == ["speed"]


def test_values_of_other_names_are_taken_raw_and_all_else_is_unknown():
    decoder = Decoder(Config)
    found = decoder.section(Config, {"speed": 2, "b": "x", "others": {"a": 1}, "c": 1})
    assert found == Config(speed=2, others={"b": "x"})
    assert len(decoder.faults) == 2
    assert "unknown flag --others.a" in decoder.faults[0]
    assert "unknown flag --c" in decoder.faults[1]
