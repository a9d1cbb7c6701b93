"""Rules on the values of a config, each yielding the sentence that users read."""

from collections.abc import Collection, Iterator


def at_least(config: object, prefix: str, least: float, *names: str) -> Iterator[str]:
    """Yield the fields below a minimum; null passes."""
    for name in names:
        value = getattr(config, name)
        if value is not None and value < least:
            yield f"--{prefix}{name}={value} must be at least {least}"


def one_of(config: object, prefix: str, **choices: Collection[str]) -> Iterator[str]:
    """Yield the fields whose value is not among their choices."""
    for name, known in choices.items():
        if getattr(config, name) not in known:
            yield f"--{prefix}{name}={getattr(config, name)} is not one of {', '.join(known)}"
