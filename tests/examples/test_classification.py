"""Digit classification in all variants: the same accuracy, and every test sample counted once."""

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from manyhands.config.policies.features import FeatureType, PolicyFeature

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "classification"
NUM_TRAIN, NUM_TEST = 500, 100
"""Neither is a multiple of 7, nor is the first one of the batch of 64."""
NUM_EPOCHS = 6
FEW_EPOCHS = 3
SOONER = ("--no-dropout", "--lr=4e-3", f"--epochs={FEW_EPOCHS}")
"""Without dropout, few epochs of larger updates learn as much."""
LINE = re.compile(r"epoch (\d+): accuracy ([\d.]+) % \((\d+) of (\d+)\)")
ONE_PROGRAM = ("single.py", "data_parallel.py", "accelerated.py", "on_engine.py")
STARTED = [("ddp.py", 2), ("accelerated.py", 2)]
AS_TORCHRUN = """
import sys
from manyhands.launch.workers import run_workers
sys.exit(run_workers(int(sys.argv[1]), [sys.executable, *sys.argv[2:]]).code)
"""
"""Starts processes with the variables that torchrun sets, and at once."""
DEADLINE_S = 60.0
NOISE = 6.0
"""How much accuracies of different draws may differ, in percent of the test set."""


def write_idx(path: Path, values: np.ndarray) -> None:
    """Write bytes in the format of MNIST's files."""
    head = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes()
    content = head + values.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noisy copies of ten images, as files of MNIST, some of them compressed."""
    folder = tmp_path_factory.mktemp("mnist")
    draw = np.random.default_rng(0)
    shapes = 255 * draw.integers(0, 2, (10, 8, 8))
    for name, number, ending in (("train", NUM_TRAIN, ".gz"), ("t10k", NUM_TEST, "")):
        labels = draw.integers(0, 10, number)
        images = np.clip(shapes[labels] + draw.normal(scale=130, size=(number, 8, 8)), 0, 255)
        write_idx(folder / f"{name}-images-idx3-ubyte{ending}", images)
        write_idx(folder / f"{name}-labels-idx1-ubyte", labels)
    return folder


class Variants:
    """Runs the scripts on the same data."""

    def __init__(self, command: Any, data: Path) -> None:
        self._command = command
        self._own = [f"--data={data}", f"--epochs={NUM_EPOCHS}", "--lr=2e-3", "--gamma=0.8"]

    def __call__(self, script: str, *flags: str, num_processes: int = 0) -> list[tuple[int, int]]:
        """Correct and counted test samples after every epoch."""
        launcher = ["-c", AS_TORCHRUN, str(num_processes)] if num_processes else []
        return self.run([sys.executable, *launcher], script, *flags)

    def run(self, launcher: list[str], script: str, *flags: str) -> list[tuple[int, int]]:
        """The same under any launcher."""
        words = [*launcher, str(FOLDER / script), *self._own, *flags]
        # Several processes may not share a GPU.
        changes = {"CUDA_VISIBLE_DEVICES": ""} if torch.cuda.is_available() else {}
        printed = self._command.run(words, changes=changes, deadline_s=DEADLINE_S)
        found = [[*map(float, each)] for each in LINE.findall(printed)]
        num_epochs = FEW_EPOCHS if SOONER[-1] in flags else NUM_EPOCHS
        assert [epoch for epoch, *_ in found] == [*range(1, num_epochs + 1)], printed
        for _, accuracy, num_correct, num_samples in found:
            assert accuracy == pytest.approx(100 * num_correct / num_samples, abs=0.01)
        return [(int(num_correct), int(number)) for *_, num_correct, number in found]


@pytest.fixture(scope="module")
def run(command: Any, data: Path) -> Variants:
    """Runs a script; its last lines are the results."""
    return Variants(command, data)


@pytest.fixture(scope="module")
def expected(run: Variants) -> list[tuple[int, int]]:
    """The results of plain PyTorch in one process."""
    return run("single.py")


def assert_same_accuracy(found: list[tuple[int, int]], expected: list[tuple[int, int]]) -> None:
    """The same number of samples, and the same accuracy within noise, at the end."""
    assert {number for _, number in found} == {NUM_TEST}
    assert expected[-1][0] >= 0.9 * NUM_TEST
    assert abs(found[-1][0] - expected[-1][0]) <= NOISE / 100 * NUM_TEST


@pytest.mark.process
@pytest.mark.parametrize("script", ONE_PROGRAM)
def test_one_process_learns_as_plain_pytorch_does(run, expected, script):
    assert_same_accuracy(run(script), expected)


@pytest.mark.process
@pytest.mark.parametrize(("script", "num_processes"), STARTED)
def test_several_processes_learn_the_same(run, expected, script, num_processes):
    assert_same_accuracy(run(script, num_processes=num_processes), expected)


@pytest.mark.launchers
@pytest.mark.parametrize("script", ["ddp.py", "accelerated.py", "on_engine.py"])
def test_processes_of_torchrun_learn_the_same(run, expected, script):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    assert_same_accuracy(run.run([*torchrun, "--nproc-per-node=2"], script), expected)


@pytest.mark.process
@pytest.mark.parametrize("script", ["on_engine.py", pytest.param("ddp.py", marks=pytest.mark.soak)])
def test_without_dropout_the_number_of_processes_changes_nothing(run, expected, script):
    """After every epoch as many samples are correct, but one that rounding may decide."""
    runs = [
        run(script, *SOONER, f"--launch.num_processes={number}")
        if script == "on_engine.py"
        else run(script, *SOONER, num_processes=number)
        for number in (1, 2, 7)
    ]
    for epoch in zip(*runs, strict=True):
        counts = [num_correct for num_correct, _ in epoch]
        assert max(counts) - min(counts) <= 1
        assert {number for _, number in epoch} == {NUM_TEST}
    assert_same_accuracy(runs[-1], expected)


@pytest.mark.soak
@pytest.mark.process
def test_the_engine_learns_the_same_in_all_forms(run, expected):
    sharded = ["--launch.num_processes=2", "--parallelism.dp_shard=-1"]
    for flags in (["--parallelism.gpus_per_process=2"], sharded):
        assert_same_accuracy(run("on_engine.py", "--device=cpu", *flags), expected)


def test_missing_files_are_named(command, tmp_path):
    words = [sys.executable, str(FOLDER / "single.py"), f"--data={tmp_path}"]
    assert "has no file train-images*idx3-ubyte*" in command.run(words, code=1)


@pytest.mark.soak
def test_the_digits_of_scikit_learn_replace_missing_files(command):
    pytest.importorskip("sklearn", reason="pip install scikit-learn")
    words = [sys.executable, str(FOLDER / "single.py"), "--epochs=3"]
    *_, (_, accuracy, _, number) = LINE.findall(command.run(words))
    assert float(accuracy) > 85 and number == "359"


def test_the_network_of_the_policy_computes_what_the_model_does(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    from digits_policy.config import DigitsConfig
    from digits_policy.network import DigitsNetwork

    camera = PolicyFeature(FeatureType.VISUAL, (3, 8, 8))
    classes = PolicyFeature(FeatureType.ACTION, (10,))
    config = DigitsConfig(input_features={"image": camera}, output_features={"action": classes})
    assert config.feature_faults() == []
    network = DigitsNetwork(config).eval()
    images, labels = torch.randn(5, 1, 8, 8), torch.arange(5)
    batch = {"image": images.expand(-1, 3, -1, -1), "action": torch.eye(10)[labels][:, None]}
    torch.testing.assert_close(network.predict(batch, {})[:, 0], network.net(images))
    mean = network(batch, {})["cross_entropy"].total / network.entry_counts(batch)["cross_entropy"]
    torch.testing.assert_close(mean, torch.nn.functional.cross_entropy(network.net(images), labels))


def test_features_that_do_not_fit_a_classifier_are_named(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    from digits_policy.config import DigitsConfig

    wide = PolicyFeature(FeatureType.VISUAL, (3, 8, 16))
    few = PolicyFeature(FeatureType.ACTION, (2,))
    faults = DigitsConfig(input_features={"image": wide}, output_features={"action": few})
    assert "square images, not [(3, 8, 16)]" in str(faults.feature_faults())
    assert "10 classes as action, not (2,)" in str(faults.feature_faults())


@pytest.mark.soak
def test_the_policy_trains_on_recorded_digits_and_is_scored(command, data, tmp_path):
    """Installed by pip, trained by two processes on a LeRobot dataset."""
    paths = [str(pip_installed(tmp_path)), os.environ.get("PYTHONPATH", "")]
    plugin = {"PYTHONPATH": os.pathsep.join(paths)}
    recorded, run = tmp_path / "recorded", tmp_path / "run"
    python = [sys.executable]
    command.run([*python, str(FOLDER / "record_digits.py"), f"--data={data}", str(recorded)])
    flags = ["--policy.type=digits", "--policy.device=cpu", "--optimizer.lr=2e-3", "--epochs=6"]
    flags += ["--dataset.use_imagenet_stats=false", "--global_batch_size=64", "--num_workers=0"]
    flags += [f"--dataset.root={recorded / 'train'}", f"--output_dir={run}"]
    launch = "--launch.num_processes=2"
    command.run([*python, "-m", "manyhands", "train", *flags, launch], changes=plugin)
    score, last = str(FOLDER / "score_policy.py"), str(run / "checkpoints/last")
    printed = command.run([*python, score, last, str(recorded / "test")], changes=plugin)
    ((accuracy, number),) = re.findall(r"accuracy ([\d.]+) % \(\d+ of (\d+)\)", printed)
    assert float(accuracy) > 85 and int(number) == NUM_TEST


def pip_installed(folder: Path) -> Path:
    """The folder of the package, as pip installs it."""
    # Building leaves files beside the source.
    source = shutil.copytree(FOLDER, folder / "source")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    local = ["--no-deps", "--no-index", "--no-build-isolation", "--target", str(folder / "site")]
    subprocess.run([*pip, *local, str(source)], check=True, timeout=200)
    return folder / "site"
