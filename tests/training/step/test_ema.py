"""The average of the weights."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from manyhands.config.sections.optim import EmaConfig
from manyhands.training.step.ema import Ema, NoEma, build_ema

DECAYS = {
    # Decays and averages of diffusers' EMAModel, as LeRobot sets it up, after updates 1, 2, 4, 5
    # and 12 that add 1, 2, 3 ... to a weight.
    EmaConfig(): [
        (0.0, 1.0),
        (0.4053964424986395, 2.189207077026367),
        (0.6464466094067263, 6.031444549560547),
        (0.7009302437557559, 8.713668823242188),
        (0.8448991901496501, 42.57553482055664),
    ],
    EmaConfig(max_decay=0.9, min_decay=0.2, update_after_step=3, inv_gamma=2.0, power=0.6667): [
        (0.0, 1.0),
        (0.0, 3.0),
        (0.0, 10.0),
        (0.2368674858210581, 13.815662384033203),
        (0.6580231575066406, 60.810123443603516),
    ],
    EmaConfig(decay=0.5, update_after_step=2): [
        (0.0, 1.0),
        (0.0, 3.0),
        (0.5, 8.0),
        (0.5, 11.5),
        (0.5, 67.00390625),
    ],
}
STEPS = (1, 2, 4, 5, 12)
SOUND, BAD = torch.tensor(True), torch.tensor(False)


def network_of(value: float) -> nn.Linear:
    network = nn.Linear(1, 1, bias=False)
    move(network, value - network.weight.item())
    return network


def move(network: nn.Module, change: float) -> None:
    with torch.no_grad():
        network.weight.add_(change)


def averaged(ema: Ema, network: nn.Module) -> float:
    with ema.applied():
        return network.weight.item()


@pytest.mark.parametrize("config", DECAYS)
def test_decay_and_average_are_lerobots(config):
    network = network_of(0.0)
    ema, found = Ema(config, network), []
    for step in range(1, 13):
        move(network, step)
        ema.prepare(step)
        ema.follow(SOUND)
        found.append((config.decay_at(step), averaged(ema, network)))
    for step, (decay, average) in zip(STEPS, DECAYS[config], strict=True):
        assert found[step - 1] == pytest.approx((decay, average), rel=1e-6)


def test_the_decay_stays_within_its_bounds():
    config = EmaConfig(min_decay=0.5, max_decay=0.6)
    assert [config.decay_at(step) for step in (1, 2, 1000)] == [0.0, 0.5, 0.6]


def test_the_average_takes_the_place_of_the_weights_and_gives_it_back():
    network = network_of(1.0)
    ema = Ema(EmaConfig(), network)
    address = network.weight.data_ptr()
    move(network, 4.0)
    with pytest.raises(KeyError), ema.applied():
        assert network.weight.item() == 1.0
        assert network.weight.data_ptr() == address
        raise KeyError
    assert network.weight.item() == 5.0
    assert averaged(ema, network) == 1.0


def test_what_is_loaded_in_the_averages_place_becomes_the_average():
    network = network_of(1.0)
    ema = Ema(EmaConfig(), network)
    with ema.applied():
        network.load_state_dict({"weight": torch.tensor([[7.0]])})
    assert network.weight.item() == 1.0
    assert averaged(ema, network) == 7.0
    ema.restart()
    assert averaged(ema, network) == 1.0


def test_buffers_and_frozen_weights_are_the_present_ones():
    network = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1))
    network[0].weight.requires_grad_(False)
    ema = Ema(EmaConfig(decay=1.0), network)
    with torch.no_grad():
        for value in network.state_dict().values():
            value.fill_(3)
    with ema.applied():
        own = {name for name, value in network.state_dict().items() if (value == 3).all()}
    assert own == {"0.weight", "1.running_mean", "1.running_var", "1.num_batches_tracked"}


def test_shards_are_averaged_where_they_lie(tmp_path):
    whole, network = nn.Linear(3, 2), nn.Linear(3, 2)
    network.load_state_dict(whole.state_dict())
    dist.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    try:
        fully_shard(network, mesh=init_device_mesh("cpu", (1,)))
        averages = [Ema(EmaConfig(decay=0.5), each) for each in (whole, network)]
        for step in (1, 2, 3):
            for each, ema in zip((whole, network), averages, strict=True):
                each(torch.full((1, 3), float(step))).sum().backward()
                torch.optim.SGD(each.parameters(), lr=0.1).step()
                ema.prepare(step)
                ema.follow(SOUND)
        with averages[0].applied(), averages[1].applied():
            assert torch.equal(whole(torch.ones(1, 3)), network(torch.ones(1, 3)))
        averages[1].restart()
    finally:
        dist.destroy_process_group()


def test_an_update_that_was_not_sound_leaves_the_average_as_it_was():
    network = network_of(0.1)
    ema = Ema(EmaConfig(), network)
    before = averaged(ema, network)
    move(network, 5.0)
    for step in (1, 7):
        ema.prepare(step)
        ema.follow(BAD)
        assert averaged(ema, network) == before


def test_weights_that_stay_have_themselves_as_their_average():
    network = network_of(0.7)
    ema = Ema(EmaConfig(decay=0.9999), network)
    for step in range(200):
        ema.prepare(step)
        ema.follow(SOUND)
    assert averaged(ema, network) == network.weight.item()


def test_following_reads_nothing_back(no_host_synchronization):
    network = network_of(1.0)
    ema = Ema(EmaConfig(decay=0.5), network)
    network.weight.data.fill_(3.0)
    with no_host_synchronization():
        ema.prepare(2)
        ema.follow(SOUND)
        with ema.applied():
            seen = network.weight.detach().clone()
    assert (seen.item(), network.weight.item()) == (2.0, 3.0)


def test_nothing_is_averaged_unasked():
    network = network_of(1.0)
    assert isinstance(build_ema(EmaConfig(), network), NoEma)
    assert list(build_ema(EmaConfig(), network).weights) == [""]
    assert list(build_ema(EmaConfig(enable=True), network).weights) == ["", "_ema"]
