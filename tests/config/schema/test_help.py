"""`--help` shows every flag in its section."""

from manyhands.config.schema.decoding import flags_of
from manyhands.config.schema.help import help_text
from manyhands.config.train import TrainConfig


def test_help_names_every_flag_and_section():
    text = help_text(TrainConfig, "usage")
    assert text.startswith("usage\n\nrun:\n")
    for flag in flags_of(TrainConfig):
        assert f"  --{flag.name}" in text
        assert f"\n{flag.section}:\n" in text


def test_help_shows_defaults():
    entries = "[brightness, contrast, saturation, hue, sharpness, affine]"
    assert entries in help_text(TrainConfig, "")
    assert "Seed of weights, data order and noise. [1000]" in help_text(TrainConfig, "")
