"""The loader measured."""

import numpy as np
import pytest

from manyhands.config.resolve import read_train_config
from manyhands.data.writing.writer import DatasetWriter
from manyhands.errors import ConfigError, UserError
from manyhands.training.setup.data import alone, open_training_data
from manyhands_bench.config import BenchLoaderConfig
from manyhands_bench.loader.rates import LoaderResult, bench_loader, request_of

CAMERA = "observation.image"


@pytest.fixture(scope="module")
def filmed(tmp_path_factory):
    root = tmp_path_factory.mktemp("filmed") / "dataset"
    features = {
        CAMERA: {"dtype": "video", "shape": [16, 16, 3], "names": ["height", "width", "channels"]},
        "observation.state": {"dtype": "float32", "shape": [2], "names": None},
        "action": {"dtype": "float32", "shape": [2], "names": None},
    }
    with DatasetWriter.create(root, 10, features) as writer:
        for step in range(20):
            vector = np.full(2, step, np.float32)
            frame = {"observation.state": vector, "action": vector, "task": "look"}
            writer.add_frame({CAMERA: np.full((16, 16, 3), 10 * step, np.uint8), **frame})
        writer.save_episode()
    return root


def config_of(root, *flags):
    base = ["--policy=diffusion", f"--dataset.root={root}", "--batch_size=4", "--num_workers=0"]
    return read_train_config([*base, *flags])


def test_both_ways_are_measured_and_memory_by_epoch(filmed, tmp_path):
    bench = BenchLoaderConfig(seconds=0.2, epochs=3)
    told = []
    config = config_of(filmed, f"--cache.folder={tmp_path}")
    result = bench_loader(bench, config, lambda *now: told.append(now))
    assert result.decode_samples_per_s > 0 and result.cache_samples_per_s > 0
    assert told[-1] == (20, 20)
    assert len(result.resident_mib) == 3 and result.reference_samples_per_s is None
    assert (result.batch_size, result.num_workers) == (4, 0)
    assert "on disk, " in result.cache_reason


def test_without_a_cache_only_decoding_is_measured(filmed):
    bench = BenchLoaderConfig(seconds=0.1)
    result = bench_loader(bench, config_of(filmed, "--cache.mode=off"), lambda *now: None)
    assert result.cache_samples_per_s is None and "--cache.mode=off" in result.cache_reason


def test_tokens_are_measured_elsewhere(filmed):
    config = config_of(filmed, "--cache.vision_tokens=true")
    with pytest.raises(ConfigError, match="bench loader does not support"):
        bench_loader(BenchLoaderConfig(seconds=0.1), config, lambda *now: None)


def test_the_other_loader_is_asked_for_the_same_samples(filmed):
    data, config = open_training_data(config_of(filmed), alone)
    request = request_of(BenchLoaderConfig(), config, data)
    assert request.root == str(filmed)
    assert request.delta_timestamps["observation.state"] == [-0.1, 0.0]
    assert request.delta_timestamps["action"][:3] == [-0.1, 0.0, 0.1]
    assert (request.batch_size, request.num_workers) == (4, 0)


def test_the_other_loader_knows_features_by_their_own_names(filmed):
    renaming = f'--rename_map={{"{CAMERA}": "observation.images.front"}}'
    data, config = open_training_data(config_of(filmed, renaming), alone)
    request = request_of(BenchLoaderConfig(), config, data)
    assert CAMERA in request.delta_timestamps and request.episodes == [0]
    assert "observation.images.front" not in request.delta_timestamps


def test_a_mixture_cannot_be_read_by_the_other_loader(filmed):
    config = read_train_config(
        ["--policy=diffusion", f"--dataset.mix={{{filmed}: 1, {filmed}/.: 1}}"]
    )
    data, config = open_training_data(config, alone)
    with pytest.raises(UserError, match="single dataset"):
        request_of(BenchLoaderConfig(), config, data)


def test_ratios_are_against_the_reference():
    result = LoaderResult(
        decode_samples_per_s=300.0,
        cache_samples_per_s=None,
        reference_samples_per_s=100.0,
        cache_reason="",
        cache_build_s=None,
        num_workers=0,
        batch_size=1,
        resident_mib=[],
    )
    assert result.speedups == {"decode": 3.0}
