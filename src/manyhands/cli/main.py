"""The `manyhands` command: the first argument selects a subcommand."""

import difflib
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import cast

from manyhands.errors import Diverged, HelpShown, RankLost, Stopped, UserError
from manyhands.launch.srun import rank_of
from manyhands.observe.start_phases import STARTED, StartPhases
from manyhands.observe.wrapping import print_over_echo, print_wrapped
from manyhands.os_errors import USERS_OWN, explain
from manyhands.stop import StopSignal
from manyhands.version import VERSION

USAGE = """manyhands: train robot policies on one GPU, many GPUs or many nodes

  manyhands demo     record, train, score and report on a built-in simulated task
  manyhands train    train a policy on a LeRobot dataset
  manyhands eval     roll out a policy in simulation; success rate and videos
  manyhands report   write an HTML page of a run, of several compared, or of a dataset
  manyhands watch    serve that page while the run continues
  manyhands plan     estimate batch, steps, memory per GPU and disk before training
  manyhands launch   write a SLURM, Kubernetes or SkyPilot job; submit it to SLURM
  manyhands status   list runs: step, loss, speed, time left
  manyhands push     upload the policy of a run to the Hub
  manyhands doctor   check this machine, a dataset or a run
  manyhands cache    decode frames ahead; show and clear the frame cache
  manyhands bench    measure loading, training steps and scaling
  manyhands convert  convert a dataset to v3.0, merge datasets, remove episodes

  manyhands completion bash   tab completion; also zsh and fish

`manyhands COMMAND --help` lists the flags of a command. `manyhands --version` is there too."""

COMMANDS = (
    *("bench", "cache", "completion", "convert", "demo", "doctor", "eval", "launch", "plan"),
    *("push", "report", "status", "train", "watch"),
)
OTHER_NAMES = {
    "bench": "benchmark speed",
    "doctor": "check info inspect validate verify",
    "eval": "evaluate evaluation rollout test",
    "launch": "job sbatch slurm submit",
    "push": "publish upload",
    "report": "html plot visualize viz",
    "status": "list ls ps runs",
    "train": "finetune fit run training",
    "watch": "dashboard monitor serve",
    "--version": "version -v -V",
}
"""Commands, and the flag without one, by names that they have in other programs."""
PEER_DELAY_S = 3.0
IMPORT_TORCH = ("bench", "cache", "convert", "demo", "doctor", "eval", "plan", "report", "watch")
"""Commands that take seconds to start."""
QUESTION = re.compile("-h$|--help|--print_config")

Command = Callable[[Sequence[str]], int]


def main() -> None:
    """Run the command line and exit with its exit code."""
    arguments = sys.argv[1:]
    if len(arguments) > 1 and arguments[0] == "help":
        arguments = [arguments[1], "=".join(["--help", *arguments[2:3]])]
    command = find_command(arguments[0]) if arguments else None
    if command is None:
        sys.exit(run_guarded(answer_without_command, arguments))
    sys.exit(run_guarded(command, arguments[1:]))


def answer_without_command(arguments: Sequence[str]) -> int:
    """Print all commands or the version; raise for an unknown command."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print_usage()
        return 0 if arguments else UserError.exit_code
    if [*arguments] == ["--version"]:
        print(f"manyhands {VERSION}")
        return 0
    raise unknown_command(arguments[0])


def print_usage() -> None:
    """Print all commands."""
    for line in USAGE.splitlines():
        print_wrapped(line, sys.stdout, indent=21 if line.startswith(" ") else 0)


def train_main() -> None:
    """The `manyhands-train` script, for launchers that need a file to run."""
    sys.exit(run_guarded(train_command, sys.argv[1:]))


def find_command(name: str) -> Command | None:
    """Import and return the command of that name."""
    if name == "train":
        return train_command
    if name not in COMMANDS:
        return None
    if name in IMPORT_TORCH and sys.stderr.isatty() and not asks_only(sys.argv[2:]):
        StartPhases().begin("loading", f"manyhands {name}")
    # Only what the command needs is imported, so that it starts at once.
    module = import_module("manyhands_bench.main" if name == "bench" else f"manyhands.cli.{name}")
    return cast(Command, getattr(module, f"{name}_command"))


def train_command(arguments: Sequence[str]) -> int:
    """Train; handle stop signals before importing anything else."""
    # Torch reads this on import. It suppresses C++ stack traces of a rank that exited, printed by
    # every other rank; the cause is reported as a message, and errors are still shown.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    started = os.environ.pop(STARTED, None)
    phases = StartPhases(rank_of(os.environ) == "0", started)
    if "RANK" not in os.environ and not asks_only(arguments):
        os.environ[STARTED] = str(time.monotonic())
        phases.begin("reading the", "configuration")
    with StopSignal(insists=True, on_delay=answer_early) as stop:
        from manyhands.cli.train import train_until

        return train_until(stop, arguments, phases)


def answer_early() -> None:
    """Tell the user that a run stops before its first step, from one process."""
    if rank_of(os.environ) == "0":
        print_over_echo("Stopping before the first step; there is nothing to save.")


def asks_only(arguments: Sequence[str]) -> bool:
    """Whether a command line asks for help or its config alone."""
    return any(map(QUESTION.match, arguments))


def unknown_command(name: str) -> UserError:
    """The error for an unknown command."""
    meant = [command for command, names in OTHER_NAMES.items() if name in names.split()]
    alike = meant or difflib.get_close_matches(name, COMMANDS, n=1, cutoff=0.7)
    hint = f"; did you mean {alike[0]}?" if alike else f"; choose from {', '.join(COMMANDS)}"
    if not meant and (name.startswith("-") or "=" in name):
        hint = f"; name one before its flags, as manyhands train {name}"
    return UserError(f"unknown command {name}{hint}")


def run_guarded(command: Command, arguments: Sequence[str]) -> int:
    """Run a command; end quietly when the reader of its output has gone."""
    code = 0
    try:
        code = run_explained(command, arguments)
        print(end="", flush=True)
    except BrokenPipeError:
        pass
    except OSError as error:
        if error.errno not in USERS_OWN:
            raise
        print_error(UserError(explain(error)))
        code = UserError.exit_code
    discard_unwritten()
    return code


def discard_unwritten() -> None:
    """Discard output that cannot be written: at exit, Python would try again and report it."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def run_explained(command: Command, arguments: Sequence[str]) -> int:
    """Run a command; print usage errors briefly, without a traceback."""
    try:
        return command(arguments)
    except HelpShown as answered:
        return answered.exit_code
    except (UserError, Diverged, RankLost) as error:
        print_error(error)
        return error.exit_code
    except Stopped as stopped:
        if rank_of(os.environ) == "0":
            answer_signal(str(stopped))
        return stopped.exit_code
    except KeyboardInterrupt as interrupt:
        if command is not train_command:  # Training has answered.
            answer_signal(str(interrupt) or "interrupted")
        return 130


def answer_signal(text: str) -> None:
    """Answer Ctrl-C or a stop request; without a reader, the exit code says it."""
    with suppress(BrokenPipeError):
        print_over_echo(f"manyhands: {text}")


def print_error(error: UserError | Diverged | RankLost) -> None:
    """Print an error once, from the rank that reports it; one of this rank alone names it."""
    # Before the rendezvous, other ranks print only if they outlive the main rank.
    rank, speaker = rank_of(os.environ), getattr(error, "rank", None)
    if rank != "0" and speaker is None and str(error):
        time.sleep(PEER_DELAY_S)
    if not isinstance(error, RankLost):
        error.is_reported = True
    is_of_all = rank == "0" if speaker is None else getattr(error, "is_common", False)
    name = "manyhands" if is_of_all else f"manyhands rank {rank}"
    with suppress(BrokenPipeError):  # Without a reader, the exit code says it.
        for line in str(error).splitlines():
            print_wrapped(f"{name}: {line}", sys.stderr)


if __name__ == "__main__":
    main()
