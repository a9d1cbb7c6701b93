"""A package that adds a policy, really installed and used from the command line."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "examples" / "mlp_policy"
FLAGS = ("--policy.type=mlp", "--policy.width=16", "--policy.device=cpu", "--num_workers=0")
ACT_ON_THE_LAST_CHECKPOINT = """
import sys, torch, manyhands
policy = manyhands.load_policy(sys.argv[1])
sizes = {name: feature.shape[0] for name, feature in policy.config.input_features.items()}
observation = {name: torch.zeros(2, size) for name, size in sizes.items()}
print(policy.config.type, sizes, tuple(policy.predict_action_chunk(observation).shape))
"""


class Installed:
    """A Python that has the package, as pip installs it."""

    def __init__(self, site: Path) -> None:
        self._environ = os.environ | {"PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"}

    def python(self, *arguments: object, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=200,
            env=self._environ,
            check=False,
        )
        assert done.returncode == code, f"exit {done.returncode}, expected {code}:\n{done.stdout}"
        return done.stdout

    def train(self, *flags: object, code: int = 0) -> str:
        return self.python("-m", "manyhands", "train", *flags, code=code)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    # Building leaves files beside the source.
    source = shutil.copytree(PACKAGE, folder / "source")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    local = ["--no-deps", "--no-index", "--no-build-isolation", "--target", str(folder / "site")]
    subprocess.run([*pip, *local, str(source)], check=True, timeout=200)
    return Installed(folder / "site")


@pytest.mark.process
def test_it_trains_on_two_processes_resumes_exactly_and_acts(
    installed, tiny_dataset, tmp_path, weights
):
    run = tmp_path / "run"
    where = (f"--dataset.root={tiny_dataset}", f"--output_dir={run}", "--launch.num_processes=2")
    installed.train(*FLAGS, *where, "--batch_size=4", "--steps=6", "--save_freq=3")
    whole = weights(run)
    shutil.rmtree(run / "checkpoints/000006")
    installed.train(f"--resume={run / 'checkpoints/000003'}")

    parts = weights(run)
    assert whole.keys() == parts.keys()
    assert all((whole[name] == parts[name]).all() for name in whole)
    told = installed.python("-c", ACT_ON_THE_LAST_CHECKPOINT, run / "checkpoints/last")
    assert told.startswith("mlp {'observation.state': 3")
    assert told.rstrip().endswith("(2, 8, 2)")


def test_its_flags_are_checked_and_explained_like_all_others(installed, tiny_dataset):
    assert "--policy.width" in installed.train("--help=policy.mlp")
    data = f"--dataset.root={tiny_dataset}"
    told = installed.train(data, "--policy.type=mlp", "--policy.witdh=3", code=2)
    assert "unknown flag --policy.witdh" in told and "--policy.width?" in told
    told = installed.train(data, "--policy.type=mlp", "--policy.width=0", code=2)
    assert "--policy.width=0 must be at least 1" in told
    told = installed.train(data, "--policy.type=mpl", code=2)
    assert "mpl is unknown" in told and "did you mean mlp?" in told


def test_a_package_that_cannot_be_imported_is_named_and_hurts_nobody_else(
    installed, tiny_dataset, tiny_act, tmp_path
):
    broken = shutil.copytree(Path(installed._environ["PYTHONPATH"]), tmp_path / "site")
    (broken / "mlp_policy" / "config.py").write_text("import a_package_that_is_not_there\n")
    python = Installed(broken)
    data = f"--dataset.root={tiny_dataset}"
    told = python.train(data, "--policy.type=mlp", code=2)
    assert "mlp is in the package mlp-policy, which cannot be loaded: ModuleNotFound" in told
    python.train(data, *tiny_act, "--steps=1", f"--output_dir={tmp_path / 'run'}")
