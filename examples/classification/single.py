"""One process: plain PyTorch, from which the other variants start.

python single.py
"""

import torch
from digits import load_digits, read_arguments, result_line
from digits_policy.model import Net
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


@torch.no_grad()
def count_correct(model: nn.Module, loader: DataLoader, device: torch.device) -> int:
    """How many samples the model classifies correctly."""
    model.eval()
    num_correct = 0
    for images, labels in loader:
        guesses = model(images.to(device)).argmax(dim=1)
        num_correct += (guesses == labels.to(device)).sum().item()
    return num_correct


if __name__ == "__main__":
    main()
