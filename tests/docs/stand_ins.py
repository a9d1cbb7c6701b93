"""Programs that documented commands start, as the folder `bin` of a sandbox has them.

Each starts the real program with the CPU form of its flags, or checks what it was given where
that program is not to be had. All note what they did, one line per command of a page.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from cpu_form import MOST_PROCESSES, cpu_words, launcher_options, manyhands_words, train_flags

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
LOG, NESTED = "DOCS_LOG", "DOCS_NESTED"
SITE = "site"  # Where packages of the repository are installed.
RAN, CHECKED = "ran", "checked"
PROGRAM = """#!{python}
import sys

sys.path.insert(0, {folder!r})
import stand_ins

stand_ins.start({name!r})
"""


def write_programs(folder: Path) -> None:
    """Write one executable file per program."""
    folder.mkdir()
    for name in PROGRAMS:
        text = PROGRAM.format(python=sys.executable, folder=str(Path(__file__).parent), name=name)
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)


def start(name: str) -> None:
    """Do what the command line asks a program for, and exit with its code."""
    sys.exit(PROGRAMS[name](sys.argv[1:]))


def note(outcome: str, words: Sequence[str]) -> None:
    """Note a command, unless another command has started it."""
    if NESTED not in os.environ:
        with Path(os.environ[LOG]).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"outcome": outcome, "words": [*words]}) + "\n")


def run(words: Sequence[str]) -> int:
    """Run a program in place of this one."""
    note(RAN, words)
    os.environ[NESTED] = "1"
    os.execvp(words[0], [*words])


def manyhands(words: Sequence[str]) -> int:
    """Any command of ours."""
    if words[:1] == ["train"]:
        remove_earlier_run(words)
    form = [str(BIN / "manyhands"), *manyhands_words(words)]
    return serve(form) if words[:1] == ["watch"] else run(form)


def manyhands_train(words: Sequence[str]) -> int:
    """A rank that a launcher has started, or a run without one."""
    if NESTED in os.environ:
        return run([str(BIN / "manyhands-train"), *words])
    return manyhands(["train", *words])


def launcher(name: str, words: Sequence[str]) -> int:
    """Start two ranks at most, each with the flags of training that follow the script."""
    scripts = [word for word in words if word.endswith(("manyhands-train", ".py"))]
    if not scripts:
        return run([str(BIN / name), *words])
    place = [*words].index(scripts[0])
    flags = words[place + 1 :]
    remove_earlier_run(flags)
    options = launcher_options(words[:place])
    is_ours = Path(scripts[0]).name in ("train.py", "manyhands-train")
    changed = train_flags(flags) if is_ours else cpu_words(flags)
    return run([str(BIN / name), *options, scripts[0], *changed])


def remove_earlier_run(words: Sequence[str]) -> None:
    """Let a page train into a run directory that an example above has used."""
    if NESTED in os.environ or any("resume" in word for word in words):
        return
    for word in words:
        name, _, folder = word.lstrip("-").partition("=")
        if name == "output_dir" and Path(folder).is_symlink():
            Path(folder).unlink()
        elif name == "output_dir":
            shutil.rmtree(folder, ignore_errors=True)


def python(words: Sequence[str]) -> int:
    """Python, with flags of training for a script that trains."""
    if words[0] == "train.py":
        remove_earlier_run(words)
        return run([sys.executable, words[0], *train_flags(words[1:])])
    return run([sys.executable, *cpu_words(words), *RECORDING.get(Path(words[0]).name, [])])


RECORDING = {"record_tray.py": ["--episodes=10"]}


def bash(words: Sequence[str]) -> int:
    """A script, whose commands are those of the sandbox again."""
    note(RAN, ["bash", *words])
    os.environ[NESTED] = "1"
    os.execv("/bin/bash", ["bash", *words])


def srun(words: Sequence[str]) -> int:
    """Start two tasks at most, with the variables that SLURM gives them."""
    options = [word for word in words if word.startswith("--")]
    first = next(place for place, word in enumerate(words) if not word.startswith("-"))
    options, command = words[:first], words[first:]
    counts = [int(word.rpartition("=")[2]) for word in options if word.startswith("--ntasks")]
    num_tasks = min(MOST_PROCESSES, *counts, MOST_PROCESSES)
    note(RAN, words)
    remove_earlier_run(command)
    if command[0] == "manyhands":
        command = ["manyhands", *manyhands_words(command[1:])]
    tasks = [start_task(command, rank, num_tasks) for rank in range(num_tasks)]
    return max(task.wait() for task in tasks)


def start_task(command: Sequence[str], rank: int, num_tasks: int) -> subprocess.Popen[bytes]:
    """One task of a step."""
    step = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0", "SLURM_NODEID": "0"}
    step |= {"SLURM_NTASKS": str(num_tasks), "SLURM_STEP_NUM_TASKS": str(num_tasks)}
    step |= {"SLURM_STEP_TASKS_PER_NODE": str(num_tasks), "SLURM_JOB_NODELIST": "localhost"}
    step |= {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), NESTED: "1"}
    if num_tasks == 1:
        step = {NESTED: "1"}
    program = BIN / command[0] if command[0] == "manyhands" else command[0]
    return subprocess.Popen([str(program), *command[1:]], env=os.environ | step)


def sbatch(words: Sequence[str]) -> int:
    """Check the syntax of a script, and that it has lines for sbatch."""
    note(CHECKED, ["sbatch", *words])
    script = Path(words[-1])
    if "#SBATCH --" not in script.read_text(encoding="utf-8"):
        sys.exit(f"{script} has no #SBATCH line")
    subprocess.run(["/bin/bash", "-n", str(script)], check=True)
    print("1" if "--parsable" in words else "Submitted batch job 1")
    return 0


def pip(words: Sequence[str]) -> int:
    """Check that what is to be installed from here exists, extras included."""
    local = [word for word in words if word.startswith("examples/")]
    if local:
        return install(local[0])
    note(CHECKED, ["pip", *words])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for word in (word for word in words[1:] if not word.startswith("-")):
        name, *extras = re.split(r"[\[\],]+", word.strip("]"))
        unknown = {*extras} - project["optional-dependencies"].keys()
        if name in (".", project["name"]) and unknown:
            sys.exit(f"{word}: no extra {', '.join(unknown)}")
    return 0


def install(name: str) -> int:
    """Install a package of the repository into the sandbox, without its dependencies."""
    source = shutil.copytree(ROOT / name, Path("source", name), dirs_exist_ok=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    local = ["--no-deps", "--no-index", "--no-build-isolation", "--target", SITE]
    return run([*pip, *local, str(source)])


def make(words: Sequence[str]) -> int:
    """Check that the target exists."""
    note(CHECKED, ["make", *words])
    command = ["/usr/bin/env", "-i", f"PATH={os.defpath}", "make", "--dry-run", "--silent"]
    done = subprocess.run([*command, *words], cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
    return done.returncode


def serve(words: Sequence[str]) -> int:
    """Start a server, open the page that it names, and press Ctrl-C."""
    note(RAN, words)
    # Shells let programs in the background ignore Ctrl-C, and programs inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert server.stdout is not None
    found = None
    for line in server.stdout:
        print(line, end="")
        found = re.search(r"http://[\w.:\[\]-]+[\w/]", line)
        if found:
            break
    if found is None:
        sys.exit("no address was printed")
    with urllib.request.urlopen(found[0], timeout=30) as answer:
        is_page = answer.status == 200
    server.send_signal(signal.SIGINT)
    return 0 if server.wait(30) in (0, -signal.SIGINT, 130) and is_page else 1


def tail(words: Sequence[str]) -> int:
    """The end of a file that exists; no waiting for more."""
    real = shutil.which("tail", path=os.defpath)
    assert real is not None
    return run([real, *(word for word in words if word != "-f")])


PROGRAMS = {
    "accelerate": lambda words: launcher("accelerate", words),
    "bash": bash,
    "make": make,
    "manyhands": manyhands,
    "manyhands-train": manyhands_train,
    "pip": pip,
    "python": python,
    "sbatch": sbatch,
    "srun": srun,
    "tail": tail,
    "tensorboard": lambda words: serve([sys.executable, "-m", "tensorboard.main", *words]),
    "torchrun": lambda words: launcher("torchrun", words),
}
"""What each program does with its words."""
