"""Captured steps equal eager ones."""

import gc
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from manyhands.checkpoint.snapshot import Position
from manyhands.config.resolve import read_train_config
from manyhands.data.dataset import Dataset
from manyhands.parallel.accelerate_engine import AccelerateEngine
from manyhands.parallel.cuda import WARM_UP_THREAD
from manyhands.parallel.world import joined_world
from manyhands.training.setup.assemble import build_initial_policy, build_learner
from manyhands.training.setup.batch import split_batch
from manyhands.training.setup.data import alone, open_training_data
from manyhands.training.step.executors import EagerStep
from manyhands.training.step.learner import Learner
from manyhands.training.step.train_step import StepInputs, StepMetrics, TrainStep
from manyhands.types import Batch

FLAGS = ("--policy.device=cuda", "--batch_size=4", "--steps=1000", "--ema.enable=true")
EXACT = ("--cudnn_deterministic=true", "--accelerator.mixed_precision=no")


def test_an_eager_step_computes_what_it_is_given():
    measures = StepMetrics({}, torch.tensor(1.0), torch.tensor(False))
    eager = EagerStep(lambda inputs: measures)
    assert eager(StepInputs({}, {}), 5) is measures and eager.mode == "eager"


@contextmanager
def learning(argv: list[str]) -> Iterator[tuple[Learner, Dataset]]:
    config = read_train_config(argv)
    data, config = open_training_data(config, alone)
    with joined_world(config) as world:
        learner, _ = build_learner(config, data.stats, world, split_batch(config, 0, 1))
        yield learner, data.source


def batch_at(data: Dataset, step: int, size: int = 4) -> Batch:
    rows = [(7 * step + 5 * k) % len(data) for k in range(size)]
    return {
        key: value.cuda() if torch.is_tensor(value) else value
        for key, value in data.batch(rows).items()
    }


def wait_until_awake() -> None:
    for thread in threading.enumerate():
        if thread.name == WARM_UP_THREAD:
            thread.join()


def look_at_values(learner: Learner, place: str) -> None:
    """Read values of the last layer on the host in every step, as a third-party policy may."""
    layer = learner.policy.network.model.action_head
    if place == "forward":
        layer.register_forward_hook(lambda module, given, found: read(found))
    else:
        layer.bias.register_post_accumulate_grad_hook(lambda bias: read(bias.grad))


def read(values: torch.Tensor) -> None:
    assert values.sum().item() is not None


def weights_of(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in learner.policy.network.state_dict().items()}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
class TestOnAGpu:
    """What only a real device can show."""

    @pytest.mark.parametrize(
        "own",
        [
            (),
            ("--accelerator.gradient_accumulation.steps=2", "--batch_size=2"),
            ("--accelerator.mixed_precision=bf16",),
        ],
        ids=["plain", "accumulated", "bf16"],
    )
    @pytest.mark.parametrize("policy", ["act", "diffusion"])
    def test_two_hundred_captured_steps_equal_eager_ones(
        self, command, tiny_act, tiny_diffusion, tiny_dataset, tmp_path, policy, own
    ):
        ends, losses = [], []
        chosen = tiny_act if policy == "act" else tiny_diffusion
        for mode in ("eager", "graph"):
            argv = [f"--dataset.root={tiny_dataset}", f"--output_dir={tmp_path}", *chosen]
            argv += [*FLAGS, *EXACT, *own, f"--step.mode={mode}", "--policy.device=cuda"]
            with learning(argv) as (learner, data):
                found = [learner.train_step(batch_at(data, step), step) for step in range(200)]
                assert learner.mode == mode, learner.messages()
                losses.append(torch.stack([each.terms["loss"] for each in found]))
                ends.append(weights_of(learner))
        assert torch.equal(*losses)
        assert all(torch.equal(value, ends[1][name]) for name, value in ends[0].items())

    def test_a_resumed_run_in_graph_mode_equals_one_that_never_stopped(self, command, tmp_path):
        argv = command.argv(tmp_path / "run", *FLAGS, *EXACT, "--step.mode=graph")
        with learning(argv) as (learner, data):
            for step in range(12):
                if step == 6:
                    saved = learner.snapshot(Position(6, 24))
                learner.train_step(batch_at(data, step), step)
            whole = weights_of(learner)
        weights = saved.policies["pretrained_model"].weights
        with learning(argv) as (learner, data):
            learner.policy.network.load_state_dict(weights)
            learner.ema.restart()
            learner.load_training_state(saved.state)
            for step in range(6, 12):
                learner.train_step(batch_at(data, step), step)
            assert learner.mode == "graph"
            resumed = weights_of(learner)
        assert all(torch.equal(value, resumed[name]) for name, value in whole.items())

    def test_a_value_that_is_not_finite_changes_nothing(self, command, tmp_path):
        argv = command.argv(tmp_path / "run", *FLAGS, "--step.mode=graph")
        with learning(argv) as (learner, data):
            learner.train_step(batch_at(data, 0), 0)
            before = weights_of(learner)
            bad = batch_at(data, 1)
            bad["action"] = torch.full_like(bad["action"], float("nan"))
            assert learner.train_step(bad, 1).is_bad
            after = weights_of(learner)
            assert all(torch.equal(value, after[name]) for name, value in before.items())
            assert not learner.train_step(batch_at(data, 2), 2).is_bad

    def test_compiled_steps_stay_close(self, command, tmp_path):
        losses = []
        for mode in ("eager", "compile"):
            argv = command.argv(tmp_path / mode, *FLAGS, f"--step.mode={mode}")
            argv += ["--accelerator.mixed_precision=no"]
            with learning(argv) as (learner, data):
                found = [learner.train_step(batch_at(data, step), step) for step in range(50)]
                assert learner.mode == mode, learner.messages()
                losses.append(torch.stack([each.terms["loss"] for each in found]))
        torch.testing.assert_close(*losses, rtol=2e-2, atol=1e-3)

    def test_compiled_steps_average_the_weights(self, command, tmp_path):
        argv = command.argv(tmp_path / "run", *FLAGS, "--step.mode=compile")
        with learning(argv) as (learner, data):
            weights = [each for each in learner.policy.network.parameters() if each.requires_grad]
            expected = [weight.detach().clone() for weight in weights]
            for step in range(20):
                learner.train_step(batch_at(data, step), step)
                share = 1 - learner.config.ema.decay_at(step + 1)
                for average, weight in zip(expected, weights, strict=True):
                    average.lerp_(weight.detach(), share)
            assert learner.mode == "compile", learner.messages()
            torch.testing.assert_close(learner.ema.averages, expected, rtol=1e-5, atol=1e-7)

    def test_the_all_reduce_of_ddp_is_captured_with_all_else(self, command, tmp_path, monkeypatch):
        with socket.create_server(("localhost", 0)) as server:
            port = str(server.getsockname()[1])
        place = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost"}
        for name, value in (place | {"MASTER_PORT": port}).items():
            monkeypatch.setenv(name, value)
        ends = []
        for mode in ("eager", "graph"):
            argv = command.argv(tmp_path / mode, *FLAGS, *EXACT, f"--step.mode={mode}")
            config = read_train_config(argv)
            data, config = open_training_data(config, alone)
            with joined_world(config) as world:
                policy, _ = build_initial_policy(config, data.stats, world.device)
                engine = AccelerateEngine(world, 1, wrap=DistributedDataParallel)
                learner = Learner(
                    TrainStep(policy, config, engine, world, split_batch(config, 0, 1)), config
                )
                for step in range(20):
                    learner.train_step(batch_at(data.source, step), step)
                assert learner.mode == mode, learner.messages()
                ends.append(weights_of(learner))
                torch.cuda.synchronize()
                phases = learner.step.phases.lap()
                assert set(phases) == {"forward", "communication", "backward", "optimizer"}
                assert all(0 < seconds < 1 for seconds in phases.values()), phases
        assert all(torch.equal(value, ends[1][name]) for name, value in ends[0].items())

    @pytest.mark.parametrize("mode", ["graph", "compile"])
    @pytest.mark.parametrize("place", ["forward", "backward"])
    def test_a_step_that_reads_values_on_the_host_runs_eagerly(
        self, command, tmp_path, place, mode
    ):
        losses = []
        for asked in ("eager", mode):
            argv = command.argv(tmp_path / asked, *FLAGS, *EXACT, f"--step.mode={asked}")
            with learning(argv) as (learner, data):
                look_at_values(learner, place)
                found = [learner.train_step(batch_at(data, step), step) for step in range(6)]
                assert learner.mode == "eager"
                told = " ".join(learner.messages())
                assert ("disabled, running eagerly" in told) == (asked == mode), told
                losses.append(torch.stack([each.terms["loss"] for each in found]))
        assert torch.equal(*losses)
        assert torch.cuda.current_stream() == torch.cuda.default_stream()
        held = torch.cuda.memory_allocated()
        lent = torch.empty(1 << 24, device="cuda")
        lent.record_stream(torch.cuda.Stream())
        del lent
        torch.cuda.synchronize()
        small = torch.empty(1, device="cuda")
        assert torch.cuda.memory_allocated() <= held + small.untyped_storage().nbytes() + 512

    @pytest.mark.gpu_serial
    def test_a_graph_gives_its_memory_back(self, command, tmp_path):
        argv = command.argv(tmp_path / "run", *FLAGS, "--step.mode=graph")
        held = []
        for _ in range(3):
            with learning(argv) as (learner, data):
                for step in range(3):
                    learner.train_step(batch_at(data, step), step)
            del learner, data
            wait_until_awake()
            gc.collect()
            # Libraries keep memory for every stream that they ever worked in.
            torch._C._cuda_clearCublasWorkspaces()
            torch.cuda.empty_cache()
            held.append(torch.cuda.memory_reserved())
        assert held[2] <= held[1]
