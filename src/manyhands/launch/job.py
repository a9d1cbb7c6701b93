"""What a job runs: the command, folders and flags, whichever cluster starts it."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from manyhands.config.launch.jobs import JobConfig, text_faults

PORT = 29500  # Of the rendezvous: a pod or a node of its own has no other program on it.


@dataclass(frozen=True)
class Job:
    """The command, folders and flags of a job."""

    program: Sequence[str]
    """What starts manyhands, such as the path of a Python and `-m manyhands`."""
    flags: Sequence[str]  # Flags of `manyhands train`.
    run_dir: Path
    folder: Path  # Where relative paths of the flags begin.
    name: str
    written_by: Sequence[str]  # The command that asked for the script.

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield every text of the job, with its flag."""
        yield "--output_dir", str(self.run_dir)
        yield "--job_name", self.name
        yield "working directory", str(self.folder)
        yield "command", shlex.join(self.program)
        # A value may follow its flag as a separate argument.
        for before, word in zip(["", *self.flags], self.flags, strict=False):
            yield "training flags", word if word.startswith("--") else f"{before} {word}"

    def text_faults(self) -> list[str]:
        """Flags that no program can be given."""
        return [fault for word in self.flags for fault in text_faults("training flags", word)]


def node_words(config: JobConfig, job: Job) -> list[str]:
    """The command of every node but for its rank and the main address, which differ by cluster."""
    machines = [f"--launch.num_machines={config.nodes}", f"--launch.main_port={PORT}"]
    return [
        *("manyhands", "train", *job.flags, "--resume=auto"),
        f"--launch.num_processes={config.num_processes}",
        *(machines if config.nodes > 1 else ()),
    ]


class Quoted(str):
    """A text of the user's: other readers of YAML take 1e-5 or y for something else."""


class _Dumper(yaml.SafeDumper):
    """Writes texts of users in double quotes, and scripts as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')


_Dumper.add_representer(Quoted, _represent_quoted)


def to_yaml(documents: Sequence[Any], written_by: Sequence[str]) -> str:
    """Documents as YAML, below a comment with the command that asked for them."""
    comment = " ".join(shlex.join(written_by).split())
    printable = "".join(character if character.isprintable() else "?" for character in comment)
    text = yaml.dump_all(
        documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000
    )
    return f"# Written by:\n#     {printable}\n{text}"
