"""What saves cost."""

import math

import pytest
import torch

from manyhands.config.resolve import read_train_config
from manyhands_bench.resume.cases import record_dataset
from manyhands_bench.resume.delay import POLICY, Delay, delay_of, one_core_left


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("delay")
    record_dataset(folder / "dataset")
    sizes = ("--policy.dim_model=64", "--policy.dim_feedforward=64", "--policy.n_heads=2")
    where = (f"--dataset.root={folder / 'dataset'}", f"--output_dir={folder / 'run'}")
    return read_train_config([*POLICY, *sizes, *where, "--policy.device=cpu"])


def test_real_saves_of_a_real_learner_are_timed(small_run):
    threads = torch.get_num_threads()
    delay = delay_of(small_run, num_saves=2)
    assert delay.state_bytes > 1e6 and delay.update_s > 0
    # What a small save adds is less than what a busy machine takes and gives.
    assert math.isfinite(delay.sync_s) and math.isfinite(delay.async_s)
    assert torch.get_num_threads() == threads
    assert len([*(small_run.output_dir / "checkpoints").glob("0*")]) == 1


def test_the_policy_that_is_timed_is_500_mb_large_with_its_optimizer(small_run):
    config = read_train_config([*POLICY, "--dataset.root=x"]).policy
    layers = config.n_encoder_layers + config.n_decoder_layers + config.n_vae_encoder_layers
    model, forward = config.dim_model, config.dim_feedforward
    # Attention, and attention over the encoder in decoders, beside the feed-forward layers.
    attention = (layers + config.n_decoder_layers) * 4 * model**2
    num_weights = attention + layers * 2 * model * forward
    assert 495e6 < 3 * 4 * num_weights < 520e6


def test_the_share_is_of_time_lost():
    delay = Delay(state_bytes=1, update_s=0.1, sync_s=2.0, async_s=0.2)
    assert delay.async_over_sync == pytest.approx(0.1)


def test_a_core_stays_free_where_there_are_several():
    with one_core_left():
        assert torch.get_num_threads() >= 1
