"""DistributedDataParallel: one process per GPU, each with a copy of the model.

Adds to single.py: a process group, a slice of every batch for each process, the mean of gradients
over processes, and sums over processes in the test.

    torchrun --nproc_per_node=7 ddp.py
"""

import os
from collections.abc import Iterator

import torch
import torch.distributed as dist
from digits import let_gloo_finish, load_digits, read_arguments, result_line
from digits_policy.model import Net
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.optim import AdamW
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Subset


class BatchSlices:
    """The samples of one process in every batch.

    A DistributedSampler with 64 // 7 samples per process would train on batches of 63, and repeat
    samples to fill the last one.
    """

    def __init__(self, num_samples: int, batch_size: int, seed: int) -> None:
        self.epoch = 0  # Without it, all epochs have the same order.
        self._num_samples = num_samples
        self._batch_size = batch_size
        self._seed = seed

    def __len__(self) -> int:
        return -(-self._num_samples // self._batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        # The same order in all processes.
        generator = torch.Generator().manual_seed(self._seed + self.epoch)
        order = torch.randperm(self._num_samples, generator=generator)
        for batch in order.split(self._batch_size):
            yield batch.tensor_split(dist.get_world_size())[dist.get_rank()].tolist()


def main() -> None:
    """Train and test in one of the processes."""
    arguments, _ = read_arguments(__doc__)
    has_gpu = torch.cuda.is_available()
    # New: the processes find each other by the variables that torchrun sets.
    dist.init_process_group("nccl" if has_gpu else "gloo")
    # The number of the process on its machine: the global one is no index of a GPU.
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_gpu else torch.device("cpu")
    if has_gpu:
        torch.cuda.set_device(device)
    rank, num_processes = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(arguments.seed + rank)  # Dropout differs; DDP copies the weights of rank 0.
    train_set, test_set = load_digits(arguments.data)
    # New: each process reads its slices, in training and in the test.
    slices = BatchSlices(len(train_set), arguments.batch_size, arguments.seed)
    train_loader = DataLoader(train_set, batch_sampler=slices, pin_memory=has_gpu)
    own_test_set = Subset(test_set, range(rank, len(test_set), num_processes))
    test_loader = DataLoader(own_test_set, batch_size=1000)

    model = Net(train_set[0][0].shape[-1], not arguments.no_dropout).to(device)
    model = DistributedDataParallel(model, device_ids=[device] if has_gpu else None)
    optimizer = AdamW(model.parameters(), lr=arguments.lr)
    schedule = StepLR(optimizer, step_size=1, gamma=arguments.gamma)
    for epoch in range(arguments.epochs):
        model.train()
        slices.epoch = epoch
        start = 0
        for images, labels in train_loader:
            num_samples = min(arguments.batch_size, len(train_set) - start)
            start += num_samples
            losses = functional.cross_entropy(
                model(images.to(device)), labels.to(device), reduction="sum"
            )
            # New: DDP takes the mean over processes, which have different numbers of samples.
            loss = losses * num_processes / num_samples
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()  # In all processes: each has an optimizer of its own.
        num_correct, num_samples = count_correct(model.module, test_loader, device)
        if rank == 0:
            print(result_line(epoch, num_correct, num_samples), flush=True)
    let_gloo_finish()
    dist.destroy_process_group()


@torch.no_grad()
def count_correct(model: nn.Module, loader: DataLoader, device: torch.device) -> list[int]:
    """How many samples the model classifies correctly, and how many there are, in all processes."""
    model.eval()
    counts = torch.zeros(2, dtype=torch.long, device=device)  # Correct ones, and all.
    for images, labels in loader:
        guesses = model(images.to(device)).argmax(dim=1)
        counts[0] += (guesses == labels.to(device)).sum()
        counts[1] += len(labels)
    # New: the sum over processes, which all have other samples.
    dist.all_reduce(counts)
    return counts.tolist()


if __name__ == "__main__":
    main()
