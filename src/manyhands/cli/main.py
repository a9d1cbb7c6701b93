"""The `manyhands` command: one word chooses what to do, flags say how."""

import difflib
import os
import sys
import time
from collections.abc import Callable, Sequence

from manyhands.errors import Diverged, HelpShown, RankLost, Stopped, UserError
from manyhands.stop import StopSignal

USAGE = """manyhands: train robot policies on one GPU, many GPUs or many nodes

  manyhands demo     record, train, score and report on a built-in simulated task
  manyhands train    train a policy on a LeRobot dataset
  manyhands plan     estimate batch, steps, memory per GPU and disk before training
  manyhands launch   write a SLURM job script and submit it
  manyhands doctor   check a dataset before training
  manyhands cache    decode frames ahead; show and clear the frame cache
  manyhands bench    measure loading, training steps and scaling
  manyhands convert  convert a dataset to v3.0, merge datasets, remove episodes

`manyhands COMMAND --help` lists the flags of a command."""

COMMANDS = ("bench", "cache", "convert", "demo", "doctor", "launch", "plan", "train")
PEER_DELAY_S = 3.0

Command = Callable[[Sequence[str]], int]


def main() -> None:
    """Run the command line and leave with its exit code."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE)
        sys.exit(0 if arguments else 2)
    command = find_command(arguments[0])
    sys.exit(run_guarded(command, arguments[1:]) if command else unknown_command(arguments[0]))


def train_main() -> None:
    """The `manyhands-train` script, for launchers that want a file to run."""
    sys.exit(run_guarded(train_command, sys.argv[1:]))


def find_command(name: str) -> Command | None:
    """The command of that name; each is imported only when used."""
    match name:
        case "train":
            return train_command
        case "launch":
            from manyhands.cli.launch import launch_command

            return launch_command
        case "plan":
            from manyhands.cli.plan import plan_command

            return plan_command
        case "demo":
            from manyhands.cli.demo import demo_command

            return demo_command
        case "doctor":
            from manyhands.cli.doctor import doctor_command

            return doctor_command
        case "cache":
            from manyhands.cli.cache import cache_command

            return cache_command
        case "bench":
            from manyhands_bench.main import bench_command

            return bench_command
        case "convert":
            from manyhands.cli.convert import convert_command

            return convert_command
    return None


def train_command(arguments: Sequence[str]) -> int:
    """Train as the arguments say; requests to stop are heard before all else is imported."""
    # Torch reads this as it loads. Its warnings are C++ stacks about a rank that ended, from every
    # other one; what ended the run is reported in words, and errors are still shown.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    with StopSignal(insists=True) as stop:
        from manyhands.cli.train import train_until

        return train_until(stop, arguments)


def unknown_command(name: str) -> int:
    """Say that there is no such command."""
    alike = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"; did you mean {alike[0]}?" if alike else f"; choose from {', '.join(COMMANDS)}"
    print(f"manyhands: unknown command {name}{hint}", file=sys.stderr)
    return UserError.exit_code


def run_guarded(command: Command, arguments: Sequence[str]) -> int:
    """Run a command; tell the user's mistakes in a few lines and without a traceback."""
    try:
        return command(arguments)
    except HelpShown as answered:
        return answered.exit_code
    except (UserError, Diverged, RankLost) as error:
        print_error(error)
        return error.exit_code
    except Stopped as stopped:
        if os.environ.get("RANK", "0") == "0":
            print(f"manyhands: {stopped}", file=sys.stderr)
        return stopped.exit_code
    except BrokenPipeError:
        # Whoever read the output has seen enough; nothing more may be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def print_error(error: UserError | Diverged | RankLost) -> None:
    """Print a mistake once, by the rank that speaks for all, which is named.

    Before ranks have met, other ranks than the main one speak only if they outlive it.
    """
    rank, speaker = os.environ.get("RANK", "0"), getattr(error, "rank", None)
    if rank != "0" and speaker is None and str(error):
        time.sleep(PEER_DELAY_S)
    if not isinstance(error, RankLost):
        error.is_reported = True
    is_alone = rank == "0" and speaker is None
    name = "manyhands" if is_alone else f"manyhands rank {rank}"
    for line in str(error).splitlines():
        print(f"{name}: {line}", file=sys.stderr)
