"""Generates `--help` from the config: one group per section, one line per flag."""

from manyhands.config.schema.decoding import Flag, encode, flags_of

WIDTH = 34


def help_text(config: type, usage: str) -> str:
    """The --help text of a command configured by a dataclass."""
    sections: dict[str, list[str]] = {"run": []}
    for flag in flags_of(config):
        sections.setdefault(flag.section, []).append(_line(flag))
    groups = ("\n".join([f"{name}:", *lines]) for name, lines in sections.items())
    return "\n\n".join([usage, *groups])


def _line(flag: Flag) -> str:
    default = encode(flag.default)
    shown = "" if default in (None, {}, []) else f" [{_plain(default)}]"
    name = f"  --{flag.name}"
    if len(name) >= WIDTH:
        name = f"{name}\n"
        return f"{name}{' ' * WIDTH}{flag.help}{shown}"
    return f"{name:{WIDTH}}{flag.help}{shown}"


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict) and all(isinstance(inner, dict) for inner in value.values()):
        return ", ".join(value)
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_plain(inner)}" for key, inner in value.items())
    return str(value)
