"""Names of other programs lead to flags that exist and take the values shown."""

from itertools import chain

import pytest

from manyhands.config.commands.convert import ConvertConfig
from manyhands.config.launch.slurm import SlurmConfig
from manyhands.config.schema.decoding import Flag, RawText, decode_value, flags_of
from manyhands.config.schema.suggestions import OUTSIDE_SECTIONS, flags_in
from manyhands.config.schema.synonyms import SYNONYMS
from manyhands.config.train import TrainConfig

FLAGS: dict[str, Flag] = {f"--{flag.name}": flag for flag in flags_of(TrainConfig)}
OTHERS = {
    *OUTSIDE_SECTIONS,
    *(f"--{flag.name}" for kind in (SlurmConfig, ConvertConfig) for flag in flags_of(kind)),
}


@pytest.mark.parametrize("advice", sorted({*chain(*SYNONYMS.values())}))
def test_every_synonym_leads_to_flags_that_exist(advice):
    flags = flags_in(advice)
    assert flags
    for name, _, value in (flag.partition("=") for flag in flags):
        assert name in FLAGS or name in OTHERS
        if value and not value.isupper():
            decode_value(FLAGS[name].type, RawText(value))


def test_no_synonym_is_a_flag_itself():
    assert not {f"--{name}" for name in SYNONYMS} & FLAGS.keys()
