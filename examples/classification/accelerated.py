"""Accelerate: the code of single.py, on one process or several.

Adds to single.py: `prepare`, which moves everything to its device and gives each process its
samples; `accelerator.backward`; `gather_for_metrics`, which drops the samples that Accelerate
repeats to fill the last batch of the test.

    python accelerated.py
    torchrun --nproc_per_node=2 accelerated.py
    CUDA_VISIBLE_DEVICES=6,7 accelerate launch --config_file ../../configs/my_config_file.yaml accelerated.py
"""  # noqa: E501

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed
from digits import let_gloo_finish, load_digits, read_arguments, result_line
from digits_policy.model import Net
from torch import nn
from torch.nn import functional
from torch.optim import AdamW
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader


def main() -> None:
    """Train and test in one of the processes."""
    arguments, _ = read_arguments(__doc__)
    # New: the batch is split over processes, whose number must divide it. Otherwise each process
    # reads a batch of its own, and prepared schedules take a step per process.
    splitting = DataLoaderConfiguration(split_batches=True)
    # Without GPUs, Accelerate joins processes only if it may use the CPU.
    is_on_cpu = not torch.cuda.is_available()
    accelerator = Accelerator(cpu=is_on_cpu, dataloader_config=splitting)
    set_seed(arguments.seed)
    train_set, test_set = load_digits(arguments.data)
    train_loader = DataLoader(train_set, arguments.batch_size, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=arguments.batch_size)

    # New: no .to(device) anywhere.
    model = Net(train_set[0][0].shape[-1], not arguments.no_dropout)
    optimizer = AdamW(model.parameters(), lr=arguments.lr)
    schedule = StepLR(optimizer, step_size=1, gamma=arguments.gamma)
    model, optimizer, train_loader, test_loader, schedule = accelerator.prepare(
        model, optimizer, train_loader, test_loader, schedule
    )
    for epoch in range(arguments.epochs):
        model.train()
        for images, labels in train_loader:
            loss = functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            accelerator.backward(loss)  # New: scales the loss in fp16.
            optimizer.step()
        schedule.step()
        num_correct, num_samples = count_correct(model, test_loader, accelerator)
        accelerator.print(result_line(epoch, num_correct, num_samples), flush=True)
    let_gloo_finish()
    accelerator.end_training()


@torch.no_grad()
def count_correct(
    model: nn.Module, loader: DataLoader, accelerator: Accelerator
) -> tuple[int, int]:
    """How many samples the model classifies correctly, and how many there are, in all processes."""
    model.eval()
    num_correct = num_samples = 0
    for images, labels in loader:
        guesses = model(images).argmax(dim=1)
        # New: the samples of all processes.
        guesses, labels = accelerator.gather_for_metrics((guesses, labels))
        num_correct += (guesses == labels).sum().item()
        num_samples += len(labels)
    return num_correct, num_samples


if __name__ == "__main__":
    main()
