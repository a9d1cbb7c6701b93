"""Suggests flags: for names of other programs, and for flags without effect."""

import difflib
import re
from collections.abc import Collection, Iterator

from manyhands.config.schema.synonyms import SYNONYMS
from manyhands.config.train import TrainConfig

FLAG = re.compile(r"--[a-z][\w.]*(?:=\S+)?")
LEAST_ALIKE = 0.8
"""Likeness of spellings from which one is proposed; a wrong proposal is worse than none."""
OUTSIDE_SECTIONS = ("--config", "--print_config")
"""Flags of training that are no settings."""
SWAPPED = 0.95
"""Likeness of words with the same letters in another order."""
JUST_LESS = 0.01
"""Of two words that are as alike, the one outside a section is proposed."""
TRAINING = ("accelerator", "launch", "optimizer", "policy", "scheduler")
"""Sections in which settings of other sections are looked for."""


def flags_in(text: str) -> list[str]:
    """The flags in a text, each with its value if it has one."""
    return [flag.rstrip(".,:;)") for flag in FLAG.findall(text)]


def suggest_flag(name: str, flags: Collection[str]) -> str:
    """Suggest a flag for an unknown one: by meaning, by its last word, or by spelling."""
    for meant in _meanings(name, flags):
        if all(flag.partition("=")[0] in flags for flag in flags_in(meant)):
            return f"; use {meant}"
    inner = [flag for flag in dict.fromkeys(flags) if flag.endswith(f".{name}")]
    if len(inner) == 1 and inner[0].count(".") == 1:
        return f"; use {inner[0]}"
    found = max(dict.fromkeys(flags), key=lambda flag: likeness(name, flag), default="")
    if likeness(name, found) >= LEAST_ALIKE:
        return f"; did you mean {found}?"
    longer = [flag for flag in dict.fromkeys(flags) if flag.startswith(f"--{name}")]
    return f"; did you mean {longer[0]}?" if len(longer) == 1 else ""


def help_topic(name: str, flags: Collection[str]) -> str:
    """Where to look for a flag that nothing is like: in the help of its section, or of all."""
    section = name.partition(".")[0]
    has_section = any(flag.startswith(f"--{section}.") for flag in flags)
    is_training = "--steps" in flags
    return f"; see --help={section}" if has_section else f"; see --help{'=all' * is_training}"


def likeness(name: str, flag: str) -> float:
    """How alike a name and a flag are spelled, from 0 to 1: in their section and in their word."""
    section, _, word = name.rpartition(".")
    if flag.count(".") > name.count(".") + 1:
        return 0.0
    known_section, _, known_word = flag.removeprefix("--").rpartition(".")
    if section:
        return min(_ratio(section, known_section), _ratio(word, known_word))
    joined = f"{known_section}_{known_word}" if known_section else known_word
    return max(_ratio(word, joined), _ratio(word, known_word) - JUST_LESS * bool(known_section))


def _ratio(one: str, other: str) -> float:
    if len(one) > 3 and sorted(one) == sorted(other):
        return SWAPPED
    return difflib.SequenceMatcher(None, one, other).ratio()


def _meanings(name: str, flags: Collection[str]) -> Iterator[str]:
    """What a name may mean: by itself, joined to its section, or by its last word alone."""
    section, _, word = name.rpartition(".")
    for text in (name, f"{section}_{word}"):
        yield from SYNONYMS.get(text, ())
    yield from (f"--{text}" for text in (word, section) if section and f"--{text}" in flags)
    is_section = any(flag.startswith(f"--{section}.") for flag in flags)
    for meant in SYNONYMS.get(word, ()):
        # Other sections than these have settings of their own that go by such names.
        if not is_section or section in TRAINING or meant.startswith(f"--{section}."):
            yield meant


def longer_warmup(config: TrainConfig) -> str:
    """The flags that lengthen the warm-up for the policy of a run."""
    kind = "" if config.scheduler is not None else "--scheduler.type=constant_with_warmup "
    return f"{kind}--scheduler.num_warmup_steps=1000"


def hub_note(config: TrainConfig) -> list[str]:
    """Note that a repo_id is set but nothing is pushed; in LeRobot the name suffices."""
    policy = config.policy
    if policy is None or policy.push_to_hub or policy.repo_id is None:
        return []
    return [
        f"NOTE: the policy is not pushed to {policy.repo_id}; add --policy.push_to_hub=true to "
        "push it when training has finished"
    ]
