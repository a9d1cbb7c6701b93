"""Dataclasses as flags: lists all flags, and decodes raw values into frozen configs."""

import types
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import draccus
import yaml
from draccus.cfgparsing import parse_string
from draccus.utils import DecodingError

from manyhands.config.policies.base import PolicyConfig
from manyhands.config.policies.registry import POLICY_TYPES, unknown_type
from manyhands.config.schema.field_docs import help_of
from manyhands.config.schema.flag_fields import field_of_others, flag_fields, stored_name
from manyhands.config.schema.json_values import NUM_BITS, bounded, shown, unknown_name
from manyhands.config.schema.key_places import key_place
from manyhands.config.schema.suggestions import OUTSIDE_SECTIONS, help_topic, suggest_flag
from manyhands.config.schema.type_names import type_name
from manyhands.config.sections.env import ENV_TYPES, EnvConfig
from manyhands.config.sections.optim import (
    OPTIMIZER_TYPES,
    SCHEDULER_TYPES,
    OptimizerConfig,
    SchedulerConfig,
)
from manyhands.config.train import TrainConfig

Tree = dict[str, Any]  # Raw values by name, nested as the dataclasses are.

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Config = TypeVar("Config", bound="DataclassInstance")


@dataclass(frozen=True)
class Choice:
    """The dataclasses of a section by `type`, and the error for an unknown type."""

    types: Mapping[str, type]
    why_not: Callable[[str], str]


CHOICES: dict[type, Choice] = {
    PolicyConfig: Choice(POLICY_TYPES, unknown_type),
    OptimizerConfig: Choice(OPTIMIZER_TYPES, partial(unknown_name, names=OPTIMIZER_TYPES)),
    SchedulerConfig: Choice(SCHEDULER_TYPES, partial(unknown_name, names=SCHEDULER_TYPES)),
    EnvConfig: Choice(ENV_TYPES, partial(unknown_name, names=ENV_TYPES)),
}
"""Sections whose dataclass is chosen by a `type` value."""
SCALARS = (bool, int, float, str, Path)


class RawText(str):
    """An unparsed value of the command line."""

    flag: str | None = None
    """Its flag as it was typed."""


class BareFlag(RawText):
    """A flag without a value."""


@dataclass(frozen=True)
class Flag:
    """A flag."""

    name: str
    section: str
    type: Any
    default: Any
    help: str


def flags_of(config: type, prefix: str = "", section: str = "run") -> Iterator[Flag]:
    """Yield every flag of a dataclass, including nested ones, in order of declaration."""
    hints = get_type_hints(config)
    for item in flag_fields(config):
        name, hint = f"{prefix}{stored_name(item.name)}", plain_type(hints[item.name])
        if hint in CHOICES:
            yield from _flags_of_choice(hint, name)
        elif isinstance(hint, type) and is_dataclass(hint):
            yield from flags_of(hint, f"{name}.", name if not prefix else section)
        else:
            made = item.default_factory
            default = item.default if made is MISSING else made()
            yield Flag(name, section, hints[item.name], default, help_of(config, item.name))


def _flags_of_choice(base: type, name: str) -> Iterator[Flag]:
    choices = CHOICES[base].types
    yield Flag(f"{name}.type", name, str, None, f"One of {', '.join(choices)}.")
    if base is PolicyConfig:
        help_text = "Folder or Hub name of a pretrained policy, instead of --policy.type."
        yield Flag(f"{name}.path", name, str, None, help_text)
    for kind, config in choices.items():
        for flag in flags_of(config, f"{name}.", name):
            yield Flag(flag.name, f"{name} ({kind})", flag.type, flag.default, flag.help)


def plain_type(hint: Any) -> Any:
    """The type inside `X | None`, else the hint itself."""
    if get_origin(hint) in (Union, types.UnionType):
        inner = [argument for argument in get_args(hint) if argument is not type(None)]
        return inner[0] if len(inner) == 1 else hint
    return hint


def entry_type(hint: Any) -> type | None:
    """The dataclass of a dictionary's values, if each of its fields has a default."""
    inner = get_args(hint)[1] if get_origin(hint) is dict else None
    if not isinstance(inner, type) or not is_dataclass(inner):
        return None
    needed = [item for item in fields(inner) if item.default is item.default_factory is MISSING]
    return None if needed else inner


class Decoder:
    """Decodes trees into frozen configs and collects every fault; names the file of a key."""

    def __init__(self, root: type, file: Path | None = None) -> None:
        self.faults: list[str] = []
        self._root = root
        self._file = file
        self._entry_flags: list[str] = []

    def section(self, config: type[Config], tree: Tree, prefix: str = "") -> Config:
        """Decode a section; invalid values keep their default."""
        hints = get_type_hints(config)
        known = {stored_name(item.name): item.name for item in flag_fields(config)}
        values: Tree = {}
        for name, raw in tree.items():
            if name in known:
                values[known[name]] = self._value(hints[known[name]], raw, f"{prefix}{name}")
            elif (taker := field_of_others(config, name)) is not None:
                values.setdefault(taker, {})[name] = raw
            elif name != "type":
                self.unknown(f"{prefix}{name}", raw)
        return config(**{name: value for name, value in values.items() if value is not MISSING})

    def choice(self, base: type, tree: Tree, name: str) -> Any:
        """Decode a section by its `type`; None for an unknown type."""
        kind, choice = tree.get("type"), CHOICES[base]
        if kind is not None and str(kind) in choice.types:
            return self.section(choice.types[str(kind)], tree, f"{name}.")
        if kind is None and tree:
            kinds = choice.types.values()
            known = {"type", *(stored_name(item.name) for each in kinds for item in fields(each))}
            for key in (each for each in tree if each not in known):
                self.unknown(f"{name}.{key}", tree[key])
            for key in [each for each in tree if each in known][:1]:
                self.faults.append(f"--{name}.{key} needs --{name}.type={'|'.join(choice.types)}")
        if kind is not None:
            self.faults.append(f"--{name}.type={choice.why_not(shown(kind))}")
        return None

    def unknown(self, name: str, value: Any) -> None:
        """Report an unknown name, for a section each of its values."""
        if isinstance(value, dict) and value:
            for inner, inner_value in value.items():
                self.unknown(f"{name}.{inner}", inner_value)
            return
        # Listing all flags reads the source of every config, which a valid config does not need.
        flags = [*(f"--{flag.name}" for flag in flags_of(self._root)), *self._entry_flags]
        flags += OUTSIDE_SECTIONS if self._root is TrainConfig else ()
        if f"--{name}" in flags:
            self.faults.append(
                f"--{name} is not a flag of the chosen --{name.partition('.')[0]}.type"
            )
            return
        place, advice = self._place_of(name, value), suggest_flag(name, flags)
        if place is not None:
            advice = advice.replace("--", "") or help_topic(name, flags)
            self.faults.append(f"{place}: unknown key {name}{advice}")
        else:
            advice = advice or help_topic(name, flags)
            self.faults.append(f"unknown flag {typed_flag(name, value)}{advice}")

    def _place_of(self, name: str, raw: Any) -> str | None:
        """File and line of a value that is not from the command line."""
        if self._file is None or isinstance(raw, RawText):
            return None
        return key_place(self._file, name)

    def _value(self, hint: Any, raw: Any, name: str) -> Any:
        inner = plain_type(hint)
        is_null = raw is None or (isinstance(raw, RawText) and raw == "null")
        if is_null and inner is not hint:
            return None
        is_section = inner in CHOICES or (isinstance(inner, type) and is_dataclass(inner))
        if is_section and isinstance(raw, RawText):
            self.unknown(name, raw)
            return MISSING
        if inner in CHOICES:
            return self.choice(inner, raw, name) if isinstance(raw, dict) else self._ill(raw, name)
        if is_dataclass(inner) and isinstance(inner, type):
            if not isinstance(raw, dict):
                return self._ill(raw, name, "a section with keys, not a single value")
            return self.section(inner, raw, f"{name}.")
        entry = entry_type(inner)
        if isinstance(raw, dict) and inner in SCALARS and _has_typed_value(raw):
            self.unknown(name, raw)
            return MISSING
        try:
            return decode_value(hint, raw) if entry is None else self._entries(entry, raw, name)
        except OverflowError:
            return self._ill(raw, name, f"an integer of at most {NUM_BITS} bits")
        except (DecodingError, TypeError, ValueError, KeyError, AttributeError):
            # draccus raises internal errors for some invalid values.
            return self._ill(raw, name, type_name(hint))

    def _entries(self, entry: type, raw: Any, name: str) -> Any:
        """Decode sections with keys of the user's choice; faults name the key."""
        entries = decode_value(dict[str, Any], raw)
        if _has_typed_value(entries):
            self.faults.append(
                f"--{name} must be set at once, with all entries: --{name}='{{...}}'"
            )
            return MISSING
        own = [item.name for item in fields(entry)]
        self._entry_flags += [f"--{name}.{key}.{each}" for key in entries for each in own]
        decoded = {key: self._value(entry, each, f"{name}.{key}") for key, each in entries.items()}
        return {key: value for key, value in decoded.items() if value is not MISSING}

    def _ill(self, raw: Any, name: str, expected: str = "a section with a type") -> Any:
        place = self._place_of(name, raw)
        named = typed_flag(name, raw) if place is None else f"{place}: {name}"
        seen = " has no value" if isinstance(raw, BareFlag) else f"={shown(raw)}"
        if expected.startswith("a list") and str(raw).isalnum():
            expected = f"a list such as [{raw}]"
        self.faults.append(f"{named}{seen}: expects {expected}")
        return MISSING


def typed_flag(name: str, raw: Any) -> str:
    """A flag as it was typed, else by its name."""
    typed = raw.flag if isinstance(raw, RawText) else None
    return typed if typed is not None and typed.startswith("--") else f"--{name}"


def decode_value(hint: Any, raw: Any) -> Any:
    """Decode a value of the hinted type, from the command line or a parsed file."""
    if isinstance(raw, BareFlag) and bool not in (hint, *get_args(hint)):
        raise TypeError("a flag without a value where one is needed")
    if plain_type(hint) is Path and raw == "":
        raise ValueError("an empty path, which would mean the current folder")
    if isinstance(raw, RawText):
        if plain_type(hint) is str:
            return None if raw == "null" and hint is not str else str(raw)
        raw = _parsed(str(raw))
    if raw is None and type(None) not in get_args(hint):
        raise TypeError("null where a value is needed")
    return bounded(draccus.decode(hint, bounded(raw)))


def _has_typed_value(raw: Any) -> bool:
    if isinstance(raw, dict):
        return any(_has_typed_value(each) for each in raw.values())
    return isinstance(raw, RawText)


def _parsed(text: str) -> Any:
    try:
        return parse_string(text)
    except yaml.YAMLError:
        raise ValueError(f"{text} is not complete") from None


def encode(config: Any, without: Collection[str] = ()) -> Any:
    """Encode a config as JSON-ready values, sections with their `type`, without marked fields."""
    if isinstance(config, PolicyConfig | OptimizerConfig | SchedulerConfig | EnvConfig):
        return {"type": config.type} | _encode_fields(config, without)
    if is_dataclass(config):
        return _encode_fields(config, without)
    if isinstance(config, dict):
        return {key: encode(value, without) for key, value in config.items()}
    if isinstance(config, list | tuple):
        return [encode(value, without) for value in config]
    if isinstance(config, Enum):
        return config.value
    return str(config) if isinstance(config, PurePath) else config


def _encode_fields(config: Any, without: Collection[str]) -> Tree:
    return {
        stored_name(item.name): encode(getattr(config, item.name), without)
        for item in fields(config)
        if not any(mark in item.metadata for mark in without)
    }
