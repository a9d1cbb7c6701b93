"""How batches are read ahead."""

from manyhands.config.resolve import read_train_config
from manyhands.observe.host_memory import host_memory
from manyhands.training.setup.data import data_ram_limit, loader_options


def config_of(*flags):
    return read_train_config(["--policy=act", "--dataset.root=somewhere", *flags])


def test_loader_flags_reach_the_loader():
    flags = ("--num_workers=3", "--prefetch_factor=7", "--dataloader_multiprocessing_context=spawn")
    loading = loader_options(config_of(*flags), num_ranks_per_node=2, pin_memory=True)
    assert (loading.num_workers, loading.prefetch_factor) == (3, 7)
    assert loading.multiprocessing_context == "spawn"
    assert (loading.num_ranks_per_node, loading.pin_memory) == (2, True)


def test_the_ranks_of_a_machine_share_its_memory():
    assert (
        loader_options(config_of("--max_ram=8GiB"), num_ranks_per_node=4).max_ram_bytes == 2 * 2**30
    )


def test_training_and_the_held_out_loss_share_the_memory():
    flags = ("--max_ram=8GiB", "--eval_steps=10", "--dataset.eval_split=0.5")
    assert loader_options(config_of(*flags), num_ranks_per_node=4).max_ram_bytes == 2**30


def test_without_a_limit_half_of_the_memory_at_hand_is_one():
    assert 0 < data_ram_limit(config_of()) < host_memory().available_bytes
