"""`manyhands doctor` on the command line."""

import json
import shutil
import subprocess
import sys
import time

import pytest

from manyhands.cli.doctor import check_dataset, doctor_command
from manyhands.config.commands.doctor import CheckedDatasetConfig, DoctorConfig
from manyhands.errors import ConfigError, UserError


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "manyhands", "doctor", *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_help_lists_the_flags():
    done = run("--help")
    assert done.returncode == 0
    for flag in ("--dataset.root", "--dataset.episodes", "--quick", "--json", "--num_workers"):
        assert flag in done.stdout
    assert "--quality" in done.stdout


def test_mistakes_are_told_together():
    done = run("--dataset.rot=x", "--quick=perhaps")
    assert done.returncode == 2
    assert "did you mean --dataset.root?" in done.stderr
    assert "--quick=perhaps: expects true or false" in done.stderr


def test_a_usable_dataset_leaves_with_zero(tiny_dataset, tmp_path, capsys):
    flags = [f"--dataset.root={tiny_dataset}", f"--json={tmp_path / 'found.json'}"]
    assert doctor_command([*flags, "--num_workers=0"]) == 0
    printed = capsys.readouterr()
    assert "usable: checked 4 episodes with 39 frames" in printed.out
    assert printed.err == ""
    document = json.loads((tmp_path / "found.json").read_text())
    assert document["num_frames"] == 39
    assert {check["state"] for check in document["checks"]} == {"ok"}


@pytest.mark.parametrize("flags", [[], ["--quick"], ["--all", "--dataset.episodes=[0,2]"]])
def test_the_folder_of_a_dataset_is_checked_as_its_flag_says(
    flags, tiny_dataset, tmp_path, monkeypatch
):
    monkeypatch.setenv("MANYHANDS_HOME", str(tmp_path / "home"))
    found = []
    for place in ([str(tiny_dataset)], [f"--dataset.root={tiny_dataset}"]):
        own = [f"--json={tmp_path / 'found.json'}", "--num_workers=0", *flags, *place]
        assert doctor_command(own) == 0
        found.append(json.loads((tmp_path / "found.json").read_text()))
    first, second = ({**each, "wall_s": None, "cached": None} for each in found)
    assert first == second and first["root"] == str(tiny_dataset)


def test_a_dataset_without_metadata_is_checked_if_flags_say_that_it_is_one(tmp_path, capsys):
    assert doctor_command([str(tmp_path), "--quick"]) == 2
    assert "meta/info.json" in capsys.readouterr().out
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(ConfigError, match="unknown flag --quick"):
        doctor_command([str(tmp_path), "--quick"])


def test_one_folder_is_checked(tiny_dataset):
    with pytest.raises(ConfigError, match=r"--dataset\.root=b has no effect: "):
        doctor_command([str(tiny_dataset), "--dataset.root=b"])
    with pytest.raises(ConfigError, match="give one folder, not 2: a, b"):
        doctor_command(["a", "b"])


def test_a_bad_dataset_leaves_with_two_and_the_table(tiny_dataset, tmp_path):
    root = shutil.copytree(tiny_dataset, tmp_path / "dataset")
    file = root / "data/chunk-000/file-000.parquet"
    file.write_bytes(file.read_bytes()[:1000])
    done = run(f"--dataset.root={root}", f"--json={tmp_path / 'found.json'}")
    assert done.returncode == 2
    assert done.stderr == ""
    assert "episodes 0 to 3: data/chunk-000/file-000.parquet is damaged: truncated" in done.stdout
    *_, verdict, remedy = done.stdout.strip().splitlines()
    assert verdict.startswith("bad: checked 0 of 4 episodes with 0 of 39 frames")
    assert remedy == "Copy or download the dataset again"
    assert done.stdout.startswith("first look after ")
    assert json.loads((tmp_path / "found.json").read_text())["bad_episodes"] == [0, 1, 2, 3]


def test_times_count_from_the_start_of_the_command(tiny_dataset, tmp_path, capsys):
    root, file = shutil.copytree(tiny_dataset, tmp_path / "dataset"), tmp_path / "found.json"
    dataset = CheckedDatasetConfig(root=root)
    config = DoctorConfig(dataset=dataset, json=file, num_workers=0)
    assert check_dataset(config, time.perf_counter() - 3600) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("first look after 1 h 00 min: ")
    assert printed.rstrip().endswith(" in 1 h 00 min")
    assert json.loads(file.read_text())["wall_s"] >= 3600


def test_a_folder_that_is_not_there_is_told_without_a_table(tmp_path):
    done = run(f"--dataset.root={tmp_path / 'nowhere'}")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "is not a LeRobot dataset" in done.stderr


def test_alone_it_checks_the_machine(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert doctor_command(["--json=found.json"]) == 0
    assert "packages" in capsys.readouterr().out
    document = json.loads((tmp_path / "found.json").read_text())
    assert {check["state"] for check in document["checks"]} <= {"ok", "warn"}


def test_a_run_directory_is_diagnosed_whatever_its_name(tmp_path, capsys):
    run_dir = tmp_path / "lr=0.1"
    run_dir.mkdir()
    facts = {"hardware": {"cores": 8}, "loading": {"num_workers": 2, "frame_cache": None}}
    (run_dir / "run.json").write_text(json.dumps(facts))
    row = '{"step": %d, "step_s": 1.0, "data_s": 0.5, "loss": 1.0}\n'
    (run_dir / "metrics.jsonl").write_text("".join(row % step for step in range(1, 20)))
    assert doctor_command([str(run_dir), f"--json={tmp_path / 'found.json'}"]) == 0
    printed = capsys.readouterr().out
    assert "50% of each step waits for data" in printed
    assert "--num_workers=4" in printed
    document = json.loads((tmp_path / "found.json").read_text())
    assert [each["kind"] for each in document["diagnoses"]] == ["decode_bound"]


def test_a_run_that_is_too_short_has_no_times(tmp_path, capsys):
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0, "step_s": 0.5}\n')
    assert doctor_command([str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "in too few rows" in printed and "time per step" not in printed


def test_a_folder_that_is_no_run_is_a_usage_error(tmp_path):
    done = run(str(tmp_path))
    assert done.returncode == 2
    assert "is neither a run (run.json is missing) nor a dataset" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "hint"), [("pikc", "; did you mean pick?"), ("nope", "."), ("notes.txt", ".")]
)
def test_a_path_that_is_no_folder_is_told_with_the_nearest(name, hint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pick").mkdir()
    (tmp_path / "notes.txt").touch()
    with pytest.raises(UserError) as error:
        doctor_command([name])
    advice = "Pass a run's --output_dir, or the folder of a dataset"
    assert str(error.value) == f"{name} is not a folder{hint} {advice}"


def test_quality_is_printed_and_written_and_leaves_the_exit_code(tiny_dataset, tmp_path, capsys):
    flags = [f"--dataset.root={tiny_dataset}", f"--json={tmp_path / 'found.json'}", "--quality"]
    assert doctor_command([*flags, "--num_workers=0"]) == 0
    assert "quality: judged 4 episodes" in capsys.readouterr().out
    quality = json.loads((tmp_path / "found.json").read_text())["quality"]
    assert [each["episode"] for each in quality["episodes"]] == [0, 1, 2, 3]
    assert quality["exclude_flag"] == ""


def test_quality_that_cannot_be_judged_is_explained(tiny_dataset, tmp_path, capsys):
    root = shutil.copytree(tiny_dataset, tmp_path / "dataset")
    file = root / "data/chunk-000/file-000.parquet"
    file.write_bytes(file.read_bytes()[:1000])
    assert doctor_command([f"--dataset.root={root}", "--quality", "--num_workers=0"]) == 2
    assert "quality: not judged: " in capsys.readouterr().out
