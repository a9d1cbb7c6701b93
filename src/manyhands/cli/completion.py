"""`manyhands completion`: tab completion of commands, flags and their values."""

import shlex
from collections.abc import Iterator, Sequence

from manyhands.cli.catalog import Command, all_commands
from manyhands.cli.flags import read_config, split_names
from manyhands.config.commands.completion import CompletionConfig
from manyhands.config.schema.decoding import CHOICES, Flag
from manyhands.errors import UserError

USAGE = """manyhands completion bash|zsh|fish

Prints a script that completes commands, flags and their values with the tab key. To load it:

  bash:  source <(manyhands completion bash)    in ~/.bashrc
  zsh:   source <(manyhands completion zsh)     in ~/.zshrc
  fish:  manyhands completion fish | source     in ~/.config/fish/config.fish"""

SHELLS = ("bash", "zsh", "fish")

# Bash splits words at `=`, so that a value is a word of its own.
BASH = r"""_manyhands() {
    local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} flag=
    local previous=${COMP_WORDS[COMP_CWORD-1]}
    if [[ " __GROUPS__ " == *" $command "* ]] && ((COMP_CWORD > 2)); then
        command+=" ${COMP_WORDS[2]}"
    fi
    if [[ $current == = ]]; then flag=$previous current=
    elif [[ $previous == = ]]; then flag=${COMP_WORDS[COMP_CWORD-2]}
    elif [[ $current == --*=* ]]; then flag=${current%%=*} current=${current#*=}
    fi
    if [[ -n $flag ]]; then COMPREPLY=($(compgen -W "$(_manyhands_values "$flag")" -- "$current"))
    elif ((COMP_CWORD == 1)); then COMPREPLY=($(compgen -W "__FIRST__" -- "$current"))
    else COMPREPLY=($(compgen -W "$(_manyhands_flags "$command")" -- "$current"))
    fi
    [[ ${COMPREPLY[0]} == --*= ]] && compopt -o nospace 2>/dev/null
    return 0
}
_manyhands_flags() {
    case $1 in
__FLAGS__
    esac
}
_manyhands_values() {
    case $1 in
__VALUES__
    esac
}
complete -o default -F _manyhands manyhands"""


def completion_command(arguments: Sequence[str]) -> int:
    """Print the script of a shell; return the exit code."""
    names, flags = split_names(arguments)
    read_config(CompletionConfig, USAGE, flags)
    shells = ", ".join(SHELLS)
    if not names:
        raise UserError(f"no shell. Name one of {shells}, as manyhands completion bash")
    if len(names) > 1 or names[0] not in SHELLS:
        raise UserError(f"completion takes the name of a shell, not {' '.join(names)}: {shells}")
    print(script_of(names[0], all_commands()))
    return 0


def script_of(shell: str, commands: Sequence[Command]) -> str:
    """The script that a shell loads."""
    if shell == "fish":
        return "\n".join(fish_lines(commands))
    script = bash_script(commands)
    loading = "autoload -Uz compinit bashcompinit && compinit && bashcompinit\n"
    return loading + script if shell == "zsh" else script


def bash_script(commands: Sequence[Command]) -> str:
    """The script of bash, which zsh emulates."""
    words = {each.name: [f"--{name}=" for name in flags_by_name(each)] for each in commands}
    seconds = second_words(commands)
    words |= seconds
    values = {f"--{name}": values_of(flag) for name, flag in all_flags(commands).items()}
    return (
        BASH.replace("__GROUPS__", " ".join(seconds))
        .replace("__FIRST__", " ".join(first_words(commands)))
        .replace("__FLAGS__", cases(words))
        .replace("__VALUES__", cases({name: each for name, each in values.items() if each}))
    )


def cases(words: dict[str, list[str]]) -> str:
    """Lines of a `case`: what each name offers."""
    return "\n".join(
        f"    {shlex.quote(name)}) echo {shlex.quote(' '.join(offered))} ;;"
        for name, offered in words.items()
    )


def fish_lines(commands: Sequence[Command]) -> Iterator[str]:
    """Yield the script of fish."""
    first = " ".join(first_words(commands))
    yield f"complete -c manyhands -n __fish_use_subcommand -f -a {shlex.quote(first)}"
    for group, names in second_words(commands).items():
        seen = shlex.quote(f"__fish_seen_subcommand_from {group}")
        yield f"complete -c manyhands -n {seen} -f -a {shlex.quote(' '.join(names))}"
    for command in commands:
        tests = [f"__fish_seen_subcommand_from {word}" for word in command.name.split()]
        seen = shlex.quote("; and ".join(tests))
        for name, flag in flags_by_name(command).items():
            offered = values_of(flag)
            only = f" -f -a {shlex.quote(' '.join(offered))}" if offered else ""
            text = shlex.quote(flag.help)
            yield f"complete -c manyhands -n {seen} -l {name} -r{only} -d {text}"


def first_words(commands: Sequence[Command]) -> list[str]:
    """The first words of all commands."""
    return sorted({each.name.split()[0] for each in commands} | {"help"})


def second_words(commands: Sequence[Command]) -> dict[str, list[str]]:
    """The words that follow a first one: subcommands, and the shells of this command."""
    found: dict[str, list[str]] = {"completion": [*SHELLS]}
    for first, *others in (each.name.split() for each in commands):
        if others:
            found.setdefault(first, []).extend(others)
    return found


def flags_by_name(command: Command) -> dict[str, Flag]:
    """The flags of a command; policies share many."""
    return {flag.name: flag for flag in command.flags()}


def all_flags(commands: Sequence[Command]) -> dict[str, Flag]:
    """The flags of all commands."""
    return {name: flag for each in commands for name, flag in flags_by_name(each).items()}


def values_of(flag: Flag) -> list[str]:
    """The values of a flag, where they are few and known."""
    section, _, last = flag.name.rpartition(".")
    if last == "type":
        known = {
            base.__name__.removesuffix("Config").lower(): each for base, each in CHOICES.items()
        }
        return [*known[section].types] if section in known else []
    return ["true", "false"] if flag.type is bool else []
