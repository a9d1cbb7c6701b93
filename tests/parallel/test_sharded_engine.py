"""The engine that shares weights among ranks."""

import runpy
import socket
from pathlib import Path

import pytest
import torch
import yaml
from torch import nn

from manyhands.config.launch.launcher_fsdp import read_sharding
from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.sections.execution import FsdpConfig
from manyhands.config.train import AcceleratorConfig, TrainConfig
from manyhands.errors import ConfigError
from manyhands.parallel.sharded_engine import (
    ShardedEngine,
    has_statistics,
    make_contiguous,
    refuse_scalars,
    refuse_several_types,
    shard_units,
)
from manyhands.parallel.strategy import Strategy
from manyhands.parallel.world import joined_world
from manyhands.policies.act.network import ActNetwork
from manyhands.policies.build import OWN
from manyhands.policies.diffusion.network import DiffusionNetwork

FEATURES = {
    "input_features": {
        "observation.state": PolicyFeature(FeatureType.STATE, (3,)),
        "observation.images.top": PolicyFeature(FeatureType.VISUAL, (3, 96, 96)),
    },
    "output_features": {"action": PolicyFeature(FeatureType.ACTION, (2,))},
    "pretrained_backbone_weights": None,
}


@pytest.fixture(scope="module")
def act() -> nn.Module:
    """A small ACT with a camera."""
    return ActNetwork(ActConfig(dim_model=16, n_heads=2, dim_feedforward=8, **FEATURES))


@pytest.fixture(scope="module")
def diffusion() -> nn.Module:
    """A small Diffusion Policy with a camera."""
    dims = {"down_dims": (8, 16), "diffusion_step_embed_dim": 8, "use_group_norm": False}
    return DiffusionNetwork(DiffusionConfig(**dims, **FEATURES))


@pytest.fixture(scope="module")
def alone() -> dict[str, object]:
    """The norm and the weights of the same update without any rank."""
    namespace = runpy.run_path(str(Path(__file__).with_name("sharded_world.py")))
    network, values = namespace["Net"](), namespace["INPUT"]
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.1)
    # Engines average over ranks; learners make up for that.
    (network(values).sum() / 2).backward()
    norm = nn.utils.get_total_norm([weight.grad for weight in network.parameters()])
    gradients = [weight.grad.flatten().tolist() for weight in network.parameters()]
    optimizer.step()
    weights = {name: value.tolist() for name, value in network.state_dict().items()}
    return {"norm": norm.item(), "gradients": gradients, "weights": weights}


SHARDED = ["plain", "parts", "kept", "one unit", "named", "scaled"]


@pytest.mark.process
@pytest.mark.parametrize("way", SHARDED)
def test_an_update_is_that_of_one_process(two_ranks, alone, way):
    for said in two_ranks:
        assert said[way]["norm"] == pytest.approx(alone["norm"], rel=1e-5)
        for one, other in zip(said[way]["gradients"], alone["gradients"], strict=True):
            assert one == pytest.approx(other, rel=1e-4, abs=1e-6)
    weights = two_ranks[0][way]["weights"]
    for name, value in alone["weights"].items():
        torch.testing.assert_close(torch.tensor(weights[name]), torch.tensor(value))
    assert two_ranks[1][way]["weights"] == {}


@pytest.mark.process
@pytest.mark.parametrize("way", ["clipped", "offloaded", "scaled and clipped"])
def test_gradients_are_clipped_by_the_norm_of_all_shards(two_ranks, alone, way):
    factor = 0.5 / (alone["norm"] + 1e-6)
    assert factor < 1
    for said in two_ranks:
        assert said[way]["norm"] == pytest.approx(alone["norm"], rel=1e-5)
        for one, other in zip(said[way]["gradients"], alone["gradients"], strict=True):
            assert one == pytest.approx([factor * each for each in other], rel=1e-4, abs=1e-6)


@pytest.mark.process
def test_an_overflow_on_one_rank_halves_the_loss_scale_of_all(two_ranks):
    for said in two_ranks:
        kept = {"is told": True, "is kept": True, "scale": 512.0}
        assert said["overflow"] == [kept] * 3


@pytest.mark.process
def test_layers_are_units_as_declared_or_as_named(two_ranks):
    found = {way: two_ranks[0][way]["num_units"] for way in ("plain", "one unit", "named")}
    assert found == {"plain": 3, "one unit": 1, "named": 3}
    told = two_ranks[0]["refused"]
    assert told.startswith("--accelerator.fsdp.wrap_modules: this policy has no Nothing.")
    assert "Layer, Linear, ModuleList, TheirLayer" in told


@pytest.mark.process
def test_weights_that_changed_between_evaluations_are_gathered_anew(two_ranks):
    assert all(said["held"]["is fresh"] for said in two_ranks)


def test_policies_declare_their_units(act, diffusion):
    names = [type(unit).__name__ for unit in shard_units(act, None)]
    assert sorted(set(names)) == ["DecoderLayer", "EncoderLayer"]
    assert len(names) == 4 + 4 + 1
    assert {type(unit).__name__ for unit in shard_units(diffusion, None)} == {
        "ResidualBlock",
        "ImageEncoder",
    }


def test_lerobots_names_of_layers_are_known(act, diffusion):
    assert len(shard_units(act, ["ACTEncoderLayer", "ACTDecoderLayer"])) == 9
    names = ["DiffusionConditionalResidualBlock1d", "DiffusionRgbEncoder"]
    assert shard_units(diffusion, names) == shard_units(diffusion, None)


def test_the_sharding_file_we_ship_fits_every_policy(act, diffusion):
    file = Path(__file__).resolve().parents[2] / "configs" / "fsdp.yaml"
    settings = yaml.safe_load(file.read_text())["fsdp_config"]
    # As accelerate names its variables.
    environ = {
        name.upper().replace("_LAYER_CLS_", "_CLS_"): str(value) for name, value in settings.items()
    }
    names = read_sharding(environ, num_local_ranks=2).fsdp.wrap_modules
    for network in (act, diffusion):
        assert shard_units(network, names) == shard_units(network, None) != []
    assert all(network.shard_units for network in OWN.values())


def test_inner_units_come_first():
    network = nn.Sequential(nn.Sequential(nn.Linear(1, 1)), nn.Linear(1, 1))
    units = shard_units(network, ["Sequential", "Linear"])
    assert units.index(network[0][0]) < units.index(network[0])
    assert network not in units


def test_only_norms_that_learn_keep_a_unit_in_full_precision(act, diffusion):
    assert not has_statistics(act)
    assert has_statistics(diffusion)
    assert has_statistics(nn.Sequential(nn.BatchNorm1d(2)))
    assert not has_statistics(nn.LayerNorm(2))


def test_single_numbers_are_refused_by_name():
    network = nn.Linear(1, 1)
    network.scale = nn.Parameter(torch.tensor(1.0))
    with pytest.raises(ConfigError, match="cannot shard scalars: scale"):
        refuse_scalars(network)
    refuse_scalars(nn.Linear(1, 1))


def test_weights_of_two_types_are_refused_unless_one_is_frozen():
    network = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1).bfloat16())
    with pytest.raises(ConfigError, match=r"torch\.bfloat16 and torch\.float32"):
        refuse_several_types(network)
    network[1].requires_grad_(False)
    refuse_several_types(network)


def test_weights_are_laid_out_to_be_cut(diffusion):
    before = {name: value.clone() for name, value in diffusion.named_parameters()}
    assert not all(weight.is_contiguous() for weight in diffusion.parameters())
    make_contiguous(diffusion)
    assert all(weight.is_contiguous() for weight in diffusion.parameters())
    assert all(torch.equal(value, before[name]) for name, value in diffusion.named_parameters())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("cpu_offload", [False, True], ids=["on the GPU", "offloaded"])
def test_a_gpu_computes_in_bf16_and_keeps_weights_in_full(monkeypatch, cpu_offload):
    with socket.create_server(("localhost", 0)) as server:
        port = str(server.getsockname()[1])
    place = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost"}
    for name, value in (place | {"MASTER_PORT": port}).items():
        monkeypatch.setenv(name, value)
    accelerator = AcceleratorConfig(mixed_precision="bf16")
    config = TrainConfig(policy=ActConfig(device="cuda"), accelerator=accelerator)
    with joined_world(config) as world:
        world.strategy = Strategy(fsdp=FsdpConfig(cpu_offload=cpu_offload))
        engine = ShardedEngine(world, 1)
        network = nn.Linear(8, 1, device=world.device)
        before = network.weight.detach().cpu().clone()
        wrapped = engine.prepare(network)
        optimizer = torch.optim.AdamW(network.parameters(), lr=0.1)
        output = wrapped(torch.ones(4, 8, device=world.device))
        engine.backward(output.float().sum())
        norm = engine.step(optimizer, 1.0)
        after = network.weight.to_local()
        assert output.dtype == torch.bfloat16
        assert after.dtype == torch.float32
        assert after.device.type == ("cpu" if cpu_offload else "cuda")
        assert norm > 0
        assert not torch.equal(after.cpu(), before)
