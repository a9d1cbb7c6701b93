"""Keys of configuration files that guides to multi-GPU training use for flags of manyhands."""

from manyhands.config.policies.base import PolicyConfig
from manyhands.config.schema.command_line import set_value
from manyhands.config.schema.decoding import RawText, Tree
from manyhands.errors import ConfigError

WARMUP = "warmup_steps"
ALIASES = {
    "data.batch_size": "batch_size",
    "learning_rate": "optimizer.lr",
    WARMUP: "scheduler.num_warmup_steps",
}
"""Keys of a file, and the flags that they set."""
WARMUP_SCHEDULE = "constant_with_warmup"  # The schedule of a policy that has none of its own.


def translate_aliases(tree: Tree) -> Tree:
    """A file's tree by its flags; the warm-up waits for the policy, which may have a schedule."""
    translated = {
        name: dict(each) if isinstance(each, dict) else each for name, each in tree.items()
    }
    for alias in aliases_in(tree):
        if value_at(tree, ALIASES[alias]) is not None:
            raise ConfigError(
                f"--config: {alias} and {ALIASES[alias]} are the same setting. Set only one of them"
            )
        if alias == WARMUP:
            continue
        value = remove(translated, alias)
        set_value(translated, ALIASES[alias], value)
    return translated


def with_warmup(tree: Tree, policy: PolicyConfig | None) -> Tree:
    """Move the warm-up of a file into the policy's schedule, or into a constant one."""
    if WARMUP not in tree or isinstance(tree[WARMUP], RawText):
        return tree
    rest = {name: value for name, value in tree.items() if name != WARMUP}
    section = rest.get("scheduler")
    schedule = {"num_warmup_steps": tree[WARMUP], **(section if isinstance(section, dict) else {})}
    if policy is None or policy.scheduler_preset() is None:
        schedule.setdefault("type", WARMUP_SCHEDULE)
    return rest | {"scheduler": schedule}


def alias_notes(tree: Tree) -> list[str]:
    """A line for each alias in a file's tree, with the flag that it sets."""
    return [f"{alias} sets --{ALIASES[alias]}" for alias in aliases_in(tree)]


def aliases_in(tree: Tree) -> list[str]:
    """The aliases that a file's tree has."""
    return [alias for alias in ALIASES if value_at(tree, alias) is not None]


def value_at(tree: Tree, name: str) -> object:
    """The value of a dotted name; None without one."""
    value: object = tree
    for key in name.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def remove(tree: Tree, name: str) -> object:
    """Remove the value of a dotted name, and its section once that is empty."""
    section, _, key = name.rpartition(".")
    value = (tree[section] if section else tree).pop(key)
    if section and not tree[section]:
        del tree[section]
    return value
