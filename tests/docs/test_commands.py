"""Every command line of the pages parses, and every flag they name exists."""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import dropwhile, groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from manyhands.cli.doctor import read_arguments
from manyhands.cli.flags import read_command_flags, read_config, read_with_synthetic, split_names
from manyhands.cli.launch import build_job, split
from manyhands.config.engine import EngineConfig
from manyhands.config.resolve import resolve_train_config
from manyhands.config.schema.command_line import read_flags
from manyhands.config.schema.decoding import flags_of
from manyhands.errors import HelpShown, UserError

PROGRAMS = {".venv/bin/pytest", ".venv/bin/ruff", "accelerate", "make", "manyhands", "pip"}
PROGRAMS |= {"bash", "python", "sbatch", "srun", "tail", "tensorboard", "torchrun"}
PROGRAMS |= {"export", "gpustat", "kubectl", "nvidia-smi", "sky", "watch"}
"""What command lines start with."""
OTHER_FLAGS = {
    *(
        "nproc-per-node",
        "nproc_per_node",
        "nnodes",
        "rdzv-backend",
        "rdzv-endpoint",
        "max-restarts",
        "master-port",
    ),
    *("multi_gpu", "num_processes", "num_machines", "machine_rank", "main_process_ip"),
    *("main_process_port", "mixed_precision", "cpu", "config_file"),
    *("ntasks", "ntasks-per-node", "gpus-per-node", "me", "jobid", "signal", "dependency"),
    *("exclusive", "constraint", "check", "num-damages", "lerobot-python"),
    *("help", "print_config", "peft"),
}
"""Flags of torchrun, accelerate, SLURM, ruff and pytest; switches, and a section."""
ROOT = Path(__file__).resolve().parents[2]
NAMES = ("recipes/*.yaml", "configs/*_config.yaml", "configs/tutorial.yaml")
CONFIGS = [file for name in NAMES for file in ROOT.glob(name)]
FILES = {
    **{file.relative_to(ROOT).as_posix(): file.read_text("utf-8") for file in CONFIGS},
    ".venv-lerobot/bin/python": "",
    "pick.yaml": "{dataset: {root: data/pick}, policy: {type: act}}",
    "lerobot/smolvla_base/config.json": '{"type": "smolvla", "load_vlm_weights": true}',
    "outputs/eval/a/eval_info.json": "{}",
    "outputs/eval/b.json": "{}",
    "outputs/pick/checkpoints/000200/training_state/none": "",
    "outputs/pick/checkpoints/000200/pretrained_model/train_config.json": (
        '{"dataset": {"root": "data/pick"}, "policy": {"type": "act"}}'
    ),
}
"""What commands of the pages name: a Python, configurations, a published policy, a run."""
EXAMPLES = ("batchsize", "name")
"""Flags that stand for any other in messages."""
FLAG = re.compile(r"--([a-zA-Z][\w.-]*)")
FLAGS_OF_TRAINING = "manyhands-train"
ASSIGNMENT = re.compile(r"[A-Z_]+=")


def command_lines(page: Any) -> Iterator[list[str]]:
    """Yield the words of every command in a page's shell blocks."""
    for block in page.blocks("bash", "diff"):
        lines = [line for line in block.splitlines() if not line.startswith("-")]
        text = "\n".join(re.sub(r"^\+", "", line) for line in lines).replace("\\\n", " ")
        for script in ("$(which manyhands-train)", " train.py"):
            text = text.replace(script, f" {FLAGS_OF_TRAINING}")
        for words in words_by_line(text.replace("${HF_USER}", "me")):
            for is_separator, command in groupby(words, key="&&".__eq__):
                if not is_separator:
                    yield [*dropwhile(ASSIGNMENT.match, command)]


def words_by_line(text: str) -> Iterator[list[str]]:
    """Yield the words of each line; a quoted value may span several."""
    unfinished = ""
    for line in text.splitlines():
        try:
            words = shlex.split(f"{unfinished}{line}", comments=True)
        except ValueError:
            unfinished += f"{line}\n"
            continue
        unfinished = ""
        if words:
            yield words
    assert not unfinished, unfinished


def test_every_command_line_parses(
    pages: list[Any], reference: SimpleNamespace, written: Callable[..., None]
) -> None:
    written(**FILES)
    parsed, faults = 0, []
    for page in (page for page in pages if not describes_a_package(page)):
        for words in command_lines(page):
            line = f"{page.name}: {shlex.join(words)}"
            if words[0] not in PROGRAMS:
                faults.append(f"{line}: unknown program")
                continue
            try:
                parsed += parse(words, reference)
            except (UserError, AssertionError, StopIteration) as error:
                faults.append(f"{line}: {error!r}")
    assert not faults, "\n".join(faults)
    assert parsed > 40


def describes_a_package(page: Any) -> bool:
    """Whether the commands of a page need what it installs; make docs-test runs those."""
    return (page.path.parent / "pyproject.toml").is_file() and page.path.parent != ROOT


def parse(words: list[str], reference: SimpleNamespace) -> bool:
    """Read a command line without running it; False where it is not one of ours."""
    words = words[: words.index(">")] if ">" in words else words
    if FLAGS_OF_TRAINING in words:
        resolve_train_config(read_flags(words[words.index(FLAGS_OF_TRAINING) + 1 :]).tree)
        return True
    if "manyhands" not in words:
        return False
    words = words[words.index("manyhands") + 1 :]
    if words == ["--help"]:
        return True
    command = next(
        each for each in reference.COMMANDS if words[: len(each.name.split())] == each.name.split()
    )
    with suppress(HelpShown):
        read(command, words[len(command.name.split()) :])
    return True


def read(command: Any, flags: Sequence[str]) -> None:
    """Read flags by the command's own parser."""
    match command.name:
        case "train":
            resolve_train_config(read_flags(flags).tree)
        case "doctor":
            read_arguments(flags)
        case "launch slurm" | "launch kubernetes" | "launch skypilot":
            own, training = split(command.name.split()[1], flags)
            read_config(command.config, "", own)
            build_job(command.name.split()[1], training, flags)
        case _ if command.describes_data:
            read_with_synthetic(command.config, "", flags)
        case _ if command.takes_train_flags:
            read_command_flags(command.config, "", flags)
        case _:
            own = split_names(flags)[1] if command.takes_names else flags
            read_config(command.config, "", own)


def test_shell_blocks_are_marked_as_such(pages: list[Any]) -> None:
    others = [
        f"{page.name}: {line}"
        for page in pages
        if page.path.name != "cli.md"
        for block in page.blocks("", "text", "console", "sh")
        for line in block.splitlines()
        if line.startswith(("manyhands ", "make ", "$ "))
    ]
    assert not others


@pytest.fixture(scope="module")
def known_flags(reference: SimpleNamespace) -> set[str]:
    """Every flag of every command and of the engine, and those of other programs."""
    configs = [*(each.config for each in reference.COMMANDS), EngineConfig]
    own = {flag.name for config in configs for flag in flags_of(config)}
    spellings = {"policy", "optimizer", "scheduler", "config", "config_path", "batch-size"}
    return own | spellings | OTHER_FLAGS


def test_every_flag_in_prose_exists(pages: list[Any], known_flags: set[str]) -> None:
    unknown = [
        f"{page.name}: `{code}`"
        for page in pages
        if page.path.name != "cli.md" and not describes_a_package(page)
        for code in page.inline_code
        for name in FLAG.findall(code)
        if not is_known(name.rstrip(".-"), known_flags)
    ]
    assert not unknown, "\n".join(unknown)


def is_known(name: str, known: set[str]) -> bool:
    """Whether a name is a flag, a section, or chosen by users within one."""
    if name in known or any(flag.startswith(f"{name}.") for flag in known):
        return True
    return name.startswith("env.") or name in EXAMPLES


def test_inline_commands_exist(pages: list[Any], reference: SimpleNamespace) -> None:
    names = {each.name for each in reference.COMMANDS}
    firsts = {name.split()[0] for name in names} | {"COMMAND", "--help"}
    unknown = [
        f"{page.name}: `{code}`"
        for page in pages
        for code in page.inline_code
        if code.startswith("manyhands ") and code.split()[1] not in firsts
    ]
    assert not unknown, "\n".join(unknown)
