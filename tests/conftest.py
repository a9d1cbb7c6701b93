"""Fixtures every test may use."""

import gc
import json
import os
import random
import resource
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Nothing is fetched in tests: asking the Hub anyway would only wait for its retries.
os.environ["HF_HUB_OFFLINE"] = "1"
# What processes share between runs must not come from, or go to, the home of whoever runs tests.
os.environ["MANYHANDS_HOME"] = tempfile.mkdtemp(prefix="manyhands-tests-")
if "PYTEST_XDIST_WORKER" not in os.environ:
    # One for all runners: a program for which it differs cannot be forked, see forked_python.py.
    os.environ["HF_HOME"] = os.environ["MANYHANDS_HOME"] + "/huggingface"

sys.path.insert(0, str(Path(__file__).with_name("processes")))

import forked_python
import forked_runners
import numpy as np
import pytest
import torch
from hypothesis import settings

from manyhands.data.writing.writer import DatasetWriter
from manyhands.launch.environment import same_library_path
from manyhands_bench.resume.cases import ACT_SIZES, POLICIES

DEADLINE_S = 200
NUM_NEW_MODULES = 20
num_modules = 0

# How long an example takes says more about the machine than about the code.
settings.register_profile("manyhands", deadline=None, max_examples=40)
# Chosen by --hypothesis-profile: for tools that slow everything down, and for a search of hours.
for profile, number in {"few": 12, "many": 1000}.items():
    settings.register_profile(profile, settings.get_profile("manyhands"), max_examples=number)
settings.load_profile("manyhands")

if os.environ.get("MANYHANDS_FORK_TESTS") == "1":
    forked_runners.install()

TINY_ACT = (*POLICIES["act"], "--policy.device=cpu", "--num_workers=0")


@pytest.fixture(scope="session")
def home() -> Path:
    """The folder tests share files in."""
    return Path(os.environ["MANYHANDS_HOME"])


def pytest_unconfigure() -> None:
    """Remove the folder, also of the process that hands out tests and runs none."""
    shutil.rmtree(os.environ["MANYHANDS_HOME"], ignore_errors=True)


@pytest.fixture(autouse=True)
def interpreter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are forked, see forked_python.py, unless a test is about the interpreter."""
    if request.node.get_closest_marker("new_interpreter"):
        monkeypatch.setattr(forked_python, "is_enabled", False)


@pytest.fixture(autouse=True)
def library_path() -> Iterator[None]:
    """OpenCV changes it when it is imported; programs that start later would not be forked."""
    with same_library_path():
        yield


@pytest.fixture(autouse=True)
def scheduling() -> Iterator[None]:
    """No test leaves its process ahead of others: what follows would starve them."""
    find = getattr(os, "sched_getscheduler", lambda _: None)
    before = find(0)
    yield
    assert find(0) == before, "the scheduling class of the process has changed"


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A test process that is lost ends the suite, which names its test."""
    if error:
        scheduler = node.config.pluginmanager.getplugin("dsession")
        scheduler.shouldstop = f"test process {node.gateway.id} was lost: {error}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start worker processes or take long come first: none must be the last."""

    def is_long(item: pytest.Item) -> bool:
        return any(item.get_closest_marker(name) for name in ("process", "long"))

    first = {item.path for item in items if is_long(item)}
    items.sort(key=lambda item: item.path not in first)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave what is known by now to itself: each run collects garbage among all there is."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests draw the same numbers, whichever ran before in the same process."""
    random.seed(0)
    np.random.seed(0)
    # Without a GPU torch would write down who asks, once for each kind of device.
    seed = torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed
    seed(0)
    freeze_imports()


def freeze_imports() -> None:
    """Hide imported modules from the garbage collector, which every training run calls."""
    global num_modules
    if len(sys.modules) > num_modules + NUM_NEW_MODULES:
        num_modules = len(sys.modules)
        gc.collect()
        gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options that make tests longer."""
    told = "damaged datasets to read and check; thousands before a release"
    parser.addoption("--num-damages", type=int, default=60, help=told)
    told = "where results on several GPUs go"
    parser.addoption("--multi-gpu-json", default="multi_gpu.json", help=told)
    told = "run the matrix of training steps on a CPU, to see that every case can be built"
    parser.addoption("--steps-on-cpu", action="store_true", help=told)
    told = "folder for the results of the soak test on a GPU"
    parser.addoption("--soak-results", default="gpu_soak_results", help=told)
    told = "seconds that each recipe of the soak test trains between two events"
    parser.addoption("--soak-seconds", type=float, default=15.0, help=told)
    told = "dataset of the long run of the soak test; PushT with images"
    parser.addoption("--soak-dataset", default="", help=told)
    told = "minutes of the long run before it is stopped"
    parser.addoption("--soak-minutes", type=float, default=9.0, help=told)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference files beside the repository; tests that need it skip without it."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip(f"needs the reference files of LeRobot in {folder}, which is missing")
    return folder


@pytest.fixture(scope="session")
def tiny_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four short episodes with states and actions, and no camera."""
    root = tmp_path_factory.mktemp("data") / "tiny"
    record_vectors(root, "observation.state", (9, 12, 7, 11), np.random.default_rng(0).normal)
    return root


def record_vectors(
    root: Path, state: str, lengths: Sequence[int], draw: Callable[..., np.ndarray]
) -> None:
    """Record episodes of small vectors, of which the robot's state has the name that is given."""
    sizes = {state: 3, "observation.environment_state": 4, "observation.velocity": 2, "action": 2}
    features = {
        name: {"dtype": "float32", "shape": (size,), "names": None} for name, size in sizes.items()
    }
    with DatasetWriter.create(root, 10, features) as writer:
        for length in lengths:
            for _ in range(length):
                frame = {name: draw(size=size).astype("f4") for name, size in sizes.items()}
                writer.add_frame({**frame, "task": "reach"})
            writer.save_episode()


@pytest.fixture(scope="session")
def record_tiny() -> Any:
    """Records what the tiny dataset has, otherwise: root, name of the state, lengths, numbers."""
    return record_vectors


@pytest.fixture
def small_files() -> Any:
    """Lets no file of this process grow beyond some bytes: a disk that is full, for everybody."""

    @contextmanager
    def limited(num_bytes: int) -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


@pytest.fixture(scope="session")
def tiny_sizes() -> tuple[str, ...]:
    """Flags that make any ACT tiny."""
    return ACT_SIZES


@pytest.fixture(scope="session")
def tiny_act() -> tuple[str, ...]:
    """Flags of an ACT without cameras that makes an update in milliseconds."""
    return TINY_ACT


class Command:
    """Runs `manyhands train` as a user does, in processes of its own."""

    def __init__(self, dataset: Path) -> None:
        self._dataset = dataset

    def argv(self, output_dir: Path, *flags: str) -> list[str]:
        """The flags of a tiny run."""
        return [f"--dataset.root={self._dataset}", *TINY_ACT, f"--output_dir={output_dir}", *flags]

    def train(
        self, output_dir: Path, *flags: str, launcher: Sequence[str] = (), code: int = 0
    ) -> str:
        """Train to the end and return all that was printed; other exit codes must be expected."""
        program = [*launcher, str(Path(sys.executable).with_name("manyhands-train"))]
        return self.run([*program, *self.argv(output_dir, *flags)], code)

    def run(
        self,
        command: Sequence[str],
        code: int = 0,
        changes: Mapping[str, str] | None = None,
        *,
        given: str | None = None,
        deadline_s: float = DEADLINE_S,
    ) -> str:
        """Run a command under a deadline; on any other exit code show everything it printed.

        `changes` are to its environment, `given` is what it reads.
        """
        environ = {name: value for name, value in os.environ.items() if name != "RANK"}
        environ |= changes or {}
        done = subprocess.run(
            command,
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=deadline_s,
            env=environ | {"OMP_NUM_THREADS": "1"},
            check=False,
        )
        assert done.returncode == code, f"exit {done.returncode}, expected {code}:\n{done.stdout}"
        return done.stdout


@pytest.fixture(scope="session")
def command(tiny_dataset: Path) -> Command:
    """`manyhands train` on the tiny dataset."""
    return Command(tiny_dataset)


@pytest.fixture(scope="session")
def tray_run(tmp_path_factory: pytest.TempPathFactory, tiny_act: Sequence[str]) -> Path:
    """A run of two updates on states of the built-in task, with averaged weights."""
    from manyhands.config.resolve import read_train_config
    from manyhands.training.start import run_training

    folder = tmp_path_factory.mktemp("tray")
    sizes = {"observation.state": 4, "observation.environment_state": 4, "action": 3}
    features = {
        name: {"dtype": "float32", "shape": (size,), "names": None} for name, size in sizes.items()
    }
    draws = np.random.default_rng(0)
    with DatasetWriter.create(folder / "data", 10, features) as writer:
        for _ in range(20):
            frame = {name: draws.normal(size=size).astype("f4") for name, size in sizes.items()}
            writer.add_frame({**frame, "task": "Put the block into the tray."})
        writer.save_episode()
    flags = [*tiny_act, "--steps=2", "--batch_size=4", "--ema.enable=true", "--ema.decay=0.5"]
    flags += [f"--dataset.root={folder / 'data'}", f"--output_dir={folder / 'run'}"]
    run_training(read_train_config(flags))
    return folder / "run"


def metrics_of(run_dir: Path) -> dict[int, dict[str, Any]]:
    """The rows of a run's metrics.jsonl by step."""
    rows = map(json.loads, (run_dir / "metrics.jsonl").read_text().splitlines())
    return {row["step"]: row for row in rows}


@pytest.fixture(scope="session")
def metrics() -> Any:
    """Reads the rows of a run's metrics.jsonl by step."""
    return metrics_of


@pytest.fixture(scope="session")
def weights() -> Any:
    """Reads the weights of a run's last checkpoint."""
    from safetensors.torch import load_file

    def read(run_dir: Path) -> dict[str, Any]:
        return load_file(run_dir / "checkpoints/last/pretrained_model/model.safetensors")

    return read


TINY_VLM: dict[str, Any] = {
    "model_type": "smolvlm",
    "image_token_id": 261,
    "pad_token_id": 2,
    "scale_factor": 2,
    "tie_word_embeddings": False,
    "text_config": {
        "model_type": "llama",
        "vocab_size": 263,
        "hidden_size": 48,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "rms_norm_eps": 1e-5,
        "pad_token_id": 2,
    },
    "vision_config": {
        "model_type": "smolvlm_vision",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 32,
        "patch_size": 8,
    },
}


def write_tokenizer(folder: Path) -> None:
    """Write a tokenizer that knows single bytes, and the words SmolVLM has for images."""
    tokenizers = pytest.importorskip("tokenizers", reason="pip install 'manyhands[smolvla]'")
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    images = ["<global-img>", "<fake_token_around_image>", "<image>", "<end_of_utterance>"]
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {name: number for number, name in enumerate([*special, *letters])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(images)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"pad_token": special[2], "truncation_side": "left"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


@pytest.fixture(scope="session")
def tiny_vlm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vision-language model without weights, as small as one can be."""
    pytest.importorskip("transformers", reason="pip install 'manyhands[smolvla]'")
    folder = tmp_path_factory.mktemp("models") / "tiny_vlm"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(TINY_VLM))
    write_tokenizer(folder)
    return folder


@pytest.fixture
def hub() -> Iterator[Any]:
    """A Hub of its own for a test; see hub_server.py."""
    server = runpy.run_path(str(Path(__file__).with_name("hub_server.py")))["HubServer"]
    with server() as running:
        yield running


@pytest.fixture
def tracked_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Steps and values of a metric in a tracker: tracker, run directory, name; see tracked_runs."""
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    return runpy.run_path(str(Path(__file__).with_name("tracked_runs.py")))["values_in"]


@pytest.fixture(scope="session")
def terminal_of() -> Any:
    """Makes a terminal of some width; see terminal.py."""
    return runpy.run_path(str(Path(__file__).with_name("terminal.py")))["Terminal"]


@pytest.fixture(scope="session")
def as_nobody() -> Any:
    """Makes a block run without the privilege of root; see nobody.py."""
    return runpy.run_path(str(Path(__file__).with_name("nobody.py")))["as_nobody"]


@pytest.fixture(scope="session")
def no_host_synchronization() -> Any:
    """Makes operations fail that wait for a device; see synchronization.py."""
    file = Path(__file__).with_name("synchronization.py")
    return runpy.run_path(str(file))["no_host_synchronization"]


@pytest.fixture(scope="session")
def any_layout() -> Any:
    """Strategies of tensors in any memory layout; see layouts.py."""
    return runpy.run_path(str(Path(__file__).with_name("layouts.py")))["any_layout"]


@pytest.fixture(scope="session")
def kernel_device() -> Any:
    """Where Triton's kernels run: on a GPU, or interpreted on a CPU with TRITON_INTERPRET=1."""
    import torch

    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.importorskip("triton", reason="make kernel-test installs Triton")
        return torch.device("cpu")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    return torch.device("cuda")


@pytest.fixture(scope="session")
def is_memory_checked() -> bool:
    """Whether tests run under a memory checker, where nothing large or captured can run."""
    return os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING") == "1"


@pytest.fixture
def step_result() -> Any:
    """What a measurement of updates might have found, beside LeRobot's and with a loader."""
    from manyhands_bench.step.loading import Loaded
    from manyhands_bench.step.roofline import Roofline
    from manyhands_bench.step.row import Row
    from manyhands_bench.step.speed import StepResult

    def row(mode: str, median_ms: float, **values: float) -> Row:
        times = {"median_ms": median_ms, "p10_ms": 1.0, "p90_ms": 3.0, "setup_s": 5.0}
        found = times | {"samples_per_s": 100.0, "peak_memory_gib": 1.0} | values
        return Row(mode=mode, precision="bf16", **found)

    return StepResult(
        rows=[
            row("graph", 2.0, host_ms=0.5, device_ms=1.9, tflops=500.0, mfu=0.71),
            row("eager", 3.0),
        ],
        reference=[row("LeRobot", 8.0)],
        device="NVIDIA H200",
        precision="bf16",
        batch_size=64,
        flops_per_update=10**12,
        peak_tflops=700.0,
        roofline=Roofline(
            bytes_per_update=2 * 10**9,
            peak_bytes_per_s=4e12,
            compute_ms=1.4,
            memory_ms=0.5,
            floor_ms=1.6,
        ),
        with_loader=Loaded(90.0, 0.9, 4),
    )
