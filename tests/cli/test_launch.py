"""`manyhands launch slurm` as users run it."""

import os
import shlex
import stat
import subprocess
import sys

import pytest

from manyhands.cli.launch import launch_command
from manyhands.cli.main import run_guarded

TRAIN = ["--dataset.root=data", "--policy.type=act", "--output_dir=runs/act"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The current folder, in which scripts are written."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def launch(*arguments: str) -> int:
    return run_guarded(launch_command, ["slurm", *arguments])


def test_the_script_is_written_and_how_to_submit_it_is_told(folder, capsys):
    assert launch("--nodes=2", "--gpus_per_node=4", "--partition=gpu", "--", *TRAIN) == 0
    assert capsys.readouterr().out == "train.sbatch: submit it with: sbatch train.sbatch\n"
    script = folder / "train.sbatch"
    text = script.read_text()
    assert script.stat().st_mode & stat.S_IXUSR and (folder / "logs").is_dir()
    assert f"#SBATCH --chdir={folder}\n" in text
    assert (
        f"    {shlex.quote(sys.executable)} -m manyhands train\n    --dataset.root=data\n" in text
    )
    assert "readlink -- runs/act/checkpoints/last" in text and "    --resume=auto\n" in text
    assert "#SBATCH --job-name=act\n" in text
    assert "#     manyhands launch slurm --nodes=2 --gpus_per_node=4" in text
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_names_and_variables_are_taken_from_the_flags(folder):
    own = ["--env.NCCL_DEBUG=INFO", "--setup=[module load cuda, ulimit -n 9999]", "--signal_s=60"]
    own += ["--options=[--exclusive]", "--script=jobs.sh", "--time=1-00", "--job_name=mine"]
    assert launch(*own, "--", *TRAIN, "--job_name=theirs") == 0
    text = (folder / "jobs.sh").read_text()
    assert "module load cuda\nulimit -n 9999\nexport NCCL_DEBUG=INFO\n" in text
    for line in ("--exclusive", "--time=1-00", "--signal=USR1@60", "--job-name=mine"):
        assert f"#SBATCH {line}\n" in text


def test_the_same_script_is_written_again_but_another_stays_unless_told(folder, capsys):
    assert launch("--", *TRAIN) == 0
    assert launch("--", *TRAIN) == 0
    capsys.readouterr()
    assert launch("--nodes=2", "--", *TRAIN) == 2
    assert "train.sbatch already exists" in capsys.readouterr().err
    assert launch("--nodes=2", "--overwrite", "--", *TRAIN) == 0
    assert "#SBATCH --nodes=2\n" in (folder / "train.sbatch").read_text()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "add -- and the flags of training"),
        (["--nodes=2", *TRAIN], "add -- and the flags of training"),
        (["--node=2", "--", *TRAIN], "unknown flag --node; did you mean --nodes?"),
        (["--nodes=none", "--", *TRAIN], "--nodes=none: expects an integer"),
        (["--gpus_per_node=0", "--", *TRAIN], "Set --processes_per_node=N"),
        (["--script=no/where.sh", "--", *TRAIN], "folder no does not exist"),
        (["--", "--policy.type=act", "--output_dir=a"], "dataset"),
        (["--", *TRAIN, "--stepps=4"], "unknown flag --stepps; did you mean --steps?"),
        (["--", *TRAIN[:2]], "Set --output_dir=DIR"),
        (["--", *TRAIN, "--resume=true"], "Remove --resume"),
        (["--", *TRAIN, "--save_checkpoint=false"], "no checkpoint to resume"),
        (["--", *TRAIN, "--launch.num_processes=2"], "use --processes_per_node"),
        (["--", *TRAIN, "--print_config"], "--print_config is not allowed after --"),
    ],
)
def test_mistakes_are_told_and_nothing_is_written(folder, arguments, told, capsys):
    assert launch(*arguments) == 2
    assert told in capsys.readouterr().err
    assert not [*folder.iterdir()]


@pytest.mark.parametrize(
    ("own", "flags", "told"),
    [
        ([], ["--job_name=a\ntouch b"], "--job_name"),
        ([], ["--job_name", "a\ntouch b"], "--job_name"),
        ([], ["--output_dir=runs/a\ntouch b"], "--output_dir"),
        ([], ["--policy.device=cpu\r"], "--policy.device"),
        (["--partition=gpu\n#SBATCH --nodes=9"], [], "--partition"),
        (["--qos=a\vb"], [], "--qos"),
        (["--env.A=1\ntouch b"], [], "--env.A"),
        (['--options=["--exclusive\\ntouch b"]'], [], "--options"),
        (['--script="a\\nb"'], [], "--script"),
    ],
)
def test_a_value_that_would_add_a_line_is_refused_with_its_flag(folder, own, flags, told, capsys):
    assert launch(*own, "--", *TRAIN, *flags) == 2
    assert told in capsys.readouterr().err
    assert not [*folder.iterdir()]


def test_the_job_name_of_a_config_file_is_checked_as_well(folder, capsys):
    (folder / "run.yaml").write_text('job_name: "a\\ntouch b"\n')
    assert launch("--", *TRAIN, "--config=run.yaml") == 2
    assert r"--job_name: 'a\ntouch b' would break a line" in capsys.readouterr().err


def test_a_working_folder_that_would_add_a_line_is_refused(folder, capsys, monkeypatch):
    (folder / "a\ntouch b").mkdir()
    monkeypatch.chdir(folder / "a\ntouch b")
    assert launch("--", *TRAIN) == 2
    assert "working directory: " in capsys.readouterr().err


def test_other_clusters_are_unknown(capsys):
    assert run_guarded(launch_command, ["pbs"]) == 2
    told = "launch pbs is unknown; use launch slurm, launch kubernetes, launch skypilot"
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("cluster", "own", "file", "submit"),
    [
        ("kubernetes", "--image=team/manyhands:1", "train.k8s.yaml", "kubectl apply -f"),
        ("skypilot", "--accelerator=H100", "train.sky.yaml", "sky jobs launch"),
    ],
)
def test_other_jobs_are_written_from_the_same_flags(folder, capsys, cluster, own, file, submit):
    flags = ["--nodes=2", "--gpus_per_node=4", own, "--", *TRAIN]
    assert run_guarded(launch_command, [cluster, *flags]) == 0
    *_, printed = capsys.readouterr().out.splitlines()
    assert printed == f"{file}: submit it with: {submit} {file}"
    text = (folder / file).read_text()
    assert text.startswith(f"# Written by:\n#     manyhands launch {cluster} --nodes=2")
    assert "--dataset.root=data" in text and "--resume=auto" in text
    assert run_guarded(launch_command, [cluster, *flags]) == 0
    assert run_guarded(launch_command, [cluster, "--nodes=3", own, "--", *TRAIN]) == 2
    assert f"{file} already exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("cluster", "arguments", "told"),
    [
        ("kubernetes", ["--", *TRAIN], "Set --image=NAME"),
        ("kubernetes", ["--image=a b", "--", *TRAIN], "is not an image name"),
        ("kubernetes", ["--image=a", "--job_name=My_Run", "--", *TRAIN], "lowercase letters"),
        ("kubernetes", ["--image=a", "--mem=64GB", "--", *TRAIN], "Write it as 64Gi"),
        ("kubernetes", ["--image=a", "--volumes={data: mnt}", "--", *TRAIN], "absolute path"),
        ("kubernetes", ["--image=a"], "add -- and the flags of training"),
        ("kubernetes", ["--image=a", "--", *TRAIN, "--launch.num_processes=2"], "the job starts"),
        ("skypilot", ["--", *TRAIN], "Set --accelerator=H100"),
        ("skypilot", ["--accelerator=H100:8", "--", *TRAIN], "is not a kind of GPU"),
        ("skypilot", ["--gpus_per_node=0", "--", *TRAIN], "Set --processes_per_node=N"),
        ("skypilot", ["--accelerator=H100", "--env.A=", "--", *TRAIN], "--env.A is empty"),
        ("skypilot", ["--accelerator=H100", "--mounts={data: b}", "--", *TRAIN], "absolute path"),
    ],
)
def test_mistakes_of_other_jobs_are_told_too(folder, cluster, arguments, told, capsys):
    assert run_guarded(launch_command, [cluster, *arguments]) == 2
    assert told in capsys.readouterr().err
    assert not [*folder.iterdir()]


@pytest.mark.parametrize(
    ("own", "output_dir", "is_kept"),
    [
        (["--volumes={robot-data: /data}"], "/data/runs/pick", True),
        (["--volumes={robot-data: /data}", "--working_dir=/data/work"], "runs/pick", True),
        (["--volumes={robot-data: /data}"], "runs/pick", False),
        (["--volumes={robot-data: /data}"], "/database/pick", False),
        ([], "/data/runs/pick", False),
    ],
)
def test_checkpoints_that_end_with_their_pods_are_a_warning(
    folder, capsys, own, output_dir, is_kept
):
    flags = ["--dataset.root=/data/pick", "--policy.type=act", f"--output_dir={output_dir}"]
    launch_command(["kubernetes", "--image=team/manyhands:1", *own, "--", *flags])
    told = f"WARNING: --output_dir={output_dir} is on no mounted volume"
    assert (told in capsys.readouterr().out) != is_kept


def test_help_is_an_answer(capsys):
    for arguments in (["--help"], ["slurm", "--help"]):
        assert run_guarded(launch_command, arguments) == 0
        assert "manyhands launch slurm" in capsys.readouterr().out


def test_without_sbatch_the_script_is_there_and_the_way_on_is_told(folder, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(folder))
    assert launch("--submit=true", "--", *TRAIN) == 2
    assert "sbatch is not installed here. Submit train.sbatch on" in capsys.readouterr().err
    assert (folder / "train.sbatch").exists()


@pytest.mark.parametrize(
    ("sbatch", "code", "told"),
    [
        ("echo '42;cluster'", 0, "train.sbatch: submitted as job 42\n"),
        ("echo 'invalid partition' >&2; exit 1", 2, "sbatch rejected train.sbatch: invalid partit"),
    ],
)
def test_the_answer_of_sbatch_is_passed_on(
    tmp_path_factory, capsys, monkeypatch, sbatch, code, told
):
    programs = tmp_path_factory.mktemp("bin")
    (programs / "sbatch").write_text(f'#!/bin/sh\n[ "$*" = "--parsable train.sbatch" ]\n{sbatch}\n')
    (programs / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert launch("--submit=true", "--", *TRAIN) == code
    captured = capsys.readouterr()
    assert told in captured.out + captured.err
