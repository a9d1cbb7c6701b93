"""The script says what the flags say, whatever they hold, and shells agree on it."""

import os
import shlex
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from manyhands.config.launch.slurm import SlurmConfig
from manyhands.errors import ConfigError
from manyhands.launch.job import Job
from manyhands.launch.slurm import sbatch_script

printable = st.text(st.characters(exclude_categories=("C", "Z")) | st.just(" "))


def job(**values) -> Job:
    known = {
        "program": ["/opt/python", "-m", "manyhands"],
        "flags": ["--dataset.root=data", "--output_dir=runs/act", "--policy.type=act"],
        "run_dir": Path("runs/act"),
        "folder": Path("/home/me/project"),
        "name": "act",
        "written_by": ["manyhands", "launch", "slurm"],
    }
    return Job(**known | values)


def directives_of(script: str) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in script.splitlines() if "#SBATCH" in line]


def test_every_wish_is_a_line_that_sbatch_reads():
    config = SlurmConfig(
        nodes=2,
        gpus_per_node=4,
        partition="gpu",
        account="robots",
        qos="high",
        time="24:00:00",
        cpus_per_task=8,
        mem="64G",
        options=["--constraint=h100 nvlink"],
        signal_s=90,
    )
    assert directives_of(sbatch_script(config, job())) == [
        "--job-name=act",
        "--partition=gpu",
        "--account=robots",
        "--qos=high",
        "--nodes=2",
        "--ntasks-per-node=4",
        "--gpus-per-node=4",
        "--cpus-per-task=8",
        "--mem=64G",
        "--time=24:00:00",
        "--chdir=/home/me/project",
        "'--constraint=h100 nvlink'",
        "--output=logs/train_%j.out",
        "--error=logs/train_%j.err",
        "--open-mode=append",
        "--signal=USR1@90",
        "--requeue",
    ]
    assert "srun --kill-on-bad-exit=1 --export=ALL --cpus-per-task=8 bash" in sbatch_script(
        config, job()
    )


def test_what_is_not_asked_for_is_left_to_the_cluster():
    config = SlurmConfig(gpus_per_node=0, processes_per_node=2, signal_s=0, requeue=False)
    lines = directives_of(sbatch_script(config, job()))
    assert "--ntasks-per-node=2" in lines and "--no-requeue" in lines
    names = {line.partition("=")[0] for line in lines}
    assert not names & {"--gpus-per-node", "--partition", "--time", "--mem", "--signal"}


def test_sbatch_reads_all_its_lines_before_the_first_command():
    script = sbatch_script(SlurmConfig(setup=["module load cuda"], env={"A": "1"}), job())
    lines = script.splitlines()
    commands = [place for place, line in enumerate(lines) if line and not line.startswith("#")]
    assert max(place for place, line in enumerate(lines) if "#SBATCH" in line) < min(commands)


def test_the_setup_comes_before_unset_variables_are_faults():
    script = sbatch_script(SlurmConfig(setup=["module load cuda"], env={"A": "b c"}), job())
    assert "set -eo pipefail\nmodule load cuda\nexport A='b c'\nset -u\n" in script


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("requeue", [True, False])
def test_shellcheck_finds_nothing(tmp_path, requeue):
    file = tmp_path / "train.sbatch"
    file.write_text(sbatch_script(SlurmConfig(requeue=requeue, env={"A": "b c"}), job()))
    done = subprocess.run(["shellcheck", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
SLURM_PROCID=0 "$@"
"""
SCONTROL = """#!/bin/bash
if [[ $1 == show ]]; then printf 'node7\\nnode8\\n'; else echo "$@" >> scontrol.txt; fi
"""
SQUEUE = "#!/bin/bash\necho ${STATE:-RUNNING}\n"
PROGRAM = """#!/bin/bash
shift
printf '%s\\n' "$MASTER_ADDR:$MASTER_PORT" > place.txt
printf '%s\\0' "$@" > flags.txt
eval "$ACTION"
"""


class Node:
    """A node whose SLURM programs only note what is asked of them, to run scripts on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "logs").mkdir(exist_ok=True)
        programs = {"srun": SRUN, "scontrol": SCONTROL, "squeue": SQUEUE, "program": PROGRAM}
        for name, text in programs.items():
            (folder / name).write_text(text)
            (folder / name).chmod(stat.S_IRWXU)

    def run(self, config: SlurmConfig, job: Job, **changes: str) -> subprocess.CompletedProcess:
        """Run the script of a job."""
        script = self.folder / "train.sbatch"
        script.write_text(sbatch_script(config, job))
        place = {"SLURM_JOB_ID": "40007", "SLURM_JOB_NODELIST": "node[7-8]"}
        path = {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        return subprocess.run(
            ["bash", str(script)],
            cwd=self.folder,
            env={**os.environ, **place, **path, **changes},
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def flags(self) -> list[str]:
        """The flags that the program was given."""
        return (self.folder / "flags.txt").read_text().split("\0")[:-1]

    @property
    def is_requeued(self) -> bool:
        """Whether the script asked SLURM to queue the job again."""
        file = self.folder / "scontrol.txt"
        return file.exists() and file.read_text() == "requeue 40007\n"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def own_job(**values) -> Job:
    return job(program=["./program"], **values)


@settings(max_examples=15)
@given(flags=st.lists(printable, min_size=1, max_size=4), name=printable)
def test_flags_and_names_reach_the_program_as_they_are(tmp_path_factory, flags, name):
    node = Node(tmp_path_factory.mktemp("node"))
    config = SlurmConfig(job_name=name, env={"NAME": name})
    done = node.run(config, own_job(flags=flags, run_dir=Path(f"runs/{name}"), written_by=flags))
    assert done.returncode == 0, done.stderr
    assert node.flags == [*flags, "--resume=auto"]


HOSTILE = '$(touch a)`touch b`\'; touch c; "$(touch d)" # \\ @SETUP@'


def test_no_value_is_run_as_a_command(node):
    config = SlurmConfig(job_name=HOSTILE, env={"A": HOSTILE}, options=[f"--comment={HOSTILE}"])
    flags = [f"--job_name={HOSTILE}", HOSTILE, "-x", "[0]=y", "~"]
    run = own_job(flags=flags, name=HOSTILE, run_dir=Path(f"-{HOSTILE}"), written_by=flags)
    done = node.run(config, run)
    assert done.returncode == 0, done.stderr
    assert node.flags == [*flags, "--resume=auto"]
    assert not [name for name in "abcd" if (node.folder / name).exists()]


def commands_of(script: str) -> list[list[str]]:
    """The words of each line, those of comments excluded and those for sbatch included."""
    return [
        shlex.split(line, comments=not line.startswith("#SBATCH")) for line in script.split("\n")
    ]


fragments = st.sampled_from(
    ["\n", "\r", "'", '"', "$(touch a)", "`touch a`", "#", "\\", ";", "@SETUP@"]
)
texts = st.lists(st.text(max_size=4) | fragments, max_size=4).map("".join)


@given(value=texts)
@example(value="/0")
def test_no_value_adds_a_line_or_a_word(value):
    def script(value: str) -> str:
        names = dict.fromkeys(("partition", "account", "qos"), f"x{value}")
        # A script in a folder that there is not is refused for that.
        name = Path(f"x{value}".replace("/", "-"))
        own = {"env": {"A": value}, "options": [f"--x={value}"], "script": name}
        config = SlurmConfig(**names, **own)
        flags = [f"--job_name={value}", f"x{value}"]
        paths = {"run_dir": Path(f"x{value}"), "folder": Path(f"/{value}")}
        return sbatch_script(config, job(flags=flags, name=f"x{value}", written_by=flags, **paths))

    try:
        written = script(value)
    except ConfigError:
        assert not value.isprintable()
        return
    plain = [[word.replace("MARK", value) for word in line] for line in commands_of(script("MARK"))]
    assert [[*map(os.path.normpath, line)] for line in commands_of(written)] == [
        [*map(os.path.normpath, line)] for line in plain
    ]


def test_processes_meet_at_the_first_node(node):
    assert node.run(SlurmConfig(), own_job()).returncode == 0
    assert (node.folder / "place.txt").read_text() == "node7:12007\n"


SAVE = "mkdir -p runs/act/checkpoints; ln -sfn 000020 runs/act/checkpoints/last"


@pytest.mark.parametrize(
    ("actions", "is_requeued"),
    [
        ([f"{SAVE}; exit 75"], True),
        (["exit 75"], False),
        ([f"{SAVE}; exit 75", "exit 75"], False),
        ([f"{SAVE}; exit 75", f"{SAVE.replace('20', '40')}; exit 75"], True),
    ],
)
def test_a_time_limit_that_leaves_no_time_for_a_checkpoint_ends_the_job(node, actions, is_requeued):
    for action in actions:
        (node.folder / "scontrol.txt").unlink(missing_ok=True)
        done = node.run(SlurmConfig(), own_job(), ACTION=f"kill -USR1 $PPID; sleep 0.2; {action}")
    assert node.is_requeued == is_requeued
    assert done.returncode == (0 if is_requeued else 1)
    assert ("raise --time" in done.stderr) != is_requeued


@pytest.mark.parametrize(
    ("action", "code", "is_requeued"),
    [
        ("exit 0", 0, False),
        ("exit 75", 0, True),
        ("kill -TERM $$", 0, True),
        ("exit 1", 1, False),
        ("exit 2", 2, False),
        ("kill -USR1 $PPID; sleep 0.2; kill -USR1 $$", 1, False),
        ("kill -KILL $$", 137, False),
    ],
)
def test_a_run_that_was_asked_to_stop_queues_again_and_no_other(node, action, code, is_requeued):
    done = node.run(SlurmConfig(), own_job(), ACTION=action)
    assert done.returncode == code
    assert node.is_requeued == is_requeued
    assert not [*(node.folder / "logs").iterdir()]
    assert ("raise --time" in done.stderr) == ("USR1" in action)


@pytest.mark.parametrize("number", ["USR1", "TERM"])
def test_the_shell_around_training_survives_the_signal_that_training_answers(node, number):
    # SLURM signals all processes of a task: the shell first, then what runs in it.
    action = f"trap 'exit 75' {number}; kill -{number} $PPID; sleep 0.2; {SAVE}; "
    action += f"kill -{number} $$; sleep 9"
    assert node.run(SlurmConfig(), own_job(), ACTION=action).returncode == 0
    assert node.is_requeued


@pytest.mark.parametrize("state", ["COMPLETING", "CANCELLED"])
def test_a_canceled_job_does_not_queue_again(node, state):
    node.run(SlurmConfig(), own_job(), ACTION="exit 75", STATE=state)
    assert not node.is_requeued


def test_without_requeue_the_exit_code_tells_that_there_is_more_to_do(node):
    done = node.run(SlurmConfig(requeue=False), own_job(), ACTION="exit 75")
    assert done.returncode == 75
    assert "submit again to continue" in done.stdout
    assert not node.is_requeued
