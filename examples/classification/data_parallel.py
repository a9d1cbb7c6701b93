"""DataParallel: one process, which copies the model to several GPUs in every step.

Adds one line to single.py. Threads of one process compute on the GPUs, the outputs and the loss of
all samples are on the first. Model and data must be there. Without GPUs it is single.py.

    python data_parallel.py
    CUDA_VISIBLE_DEVICES=6,7 python data_parallel.py
"""

import torch
from digits import load_digits, read_arguments, result_line
from digits_policy.model import Net
from single import count_correct
from torch import nn
from torch.nn import functional
from torch.optim import AdamW
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader


def main() -> None:
    """Train and test."""
    arguments, _ = read_arguments(__doc__)
    torch.manual_seed(arguments.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_set, test_set = load_digits(arguments.data)
    train_loader = DataLoader(train_set, arguments.batch_size, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=1000)

    model = Net(train_set[0][0].shape[-1], not arguments.no_dropout).to(device)
    # New: all visible GPUs; the first one collects the outputs.
    model = nn.DataParallel(model)
    optimizer = AdamW(model.parameters(), lr=arguments.lr)
    schedule = StepLR(optimizer, step_size=1, gamma=arguments.gamma)
    for epoch in range(arguments.epochs):
        model.train()
        for images, labels in train_loader:
            log_probabilities = functional.log_softmax(model(images.to(device)), dim=1)
            loss = functional.nll_loss(log_probabilities, labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        num_correct = count_correct(model, test_loader, device)
        print(result_line(epoch, num_correct, len(test_set)))


if __name__ == "__main__":
    main()
