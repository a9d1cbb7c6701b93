"""manyhands.Engine: one program for a single process, DP, DDP and FSDP2, under any launcher.

Adds to single.py: the loss of every sample, and the engine. Batches of 64 stay batches of 64 on 7
processes, the test counts every sample once, and a stopped run continues where it was.

    python on_engine.py
    python on_engine.py --launch.num_processes=7 --device=cpu
    python on_engine.py --parallelism.gpus_per_process=2
    python on_engine.py --parallelism.dp_shard=-1 --output_dir=outputs/digits
    torchrun --nproc_per_node=7 on_engine.py
    accelerate launch --config_file ../../configs/my_config_file.yaml on_engine.py
"""

from digits import load_digits, read_arguments, result_line
from digits_policy.model import Net
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import AdamW
from torch.optim.lr_scheduler import StepLR

from manyhands import Engine

Values = tuple[Tensor, Tensor]


def losses(model: nn.Module, values: Values) -> Tensor:
    """The loss of every sample."""
    images, labels = values
    return functional.cross_entropy(model(images), labels, reduction="none")


def is_correct(model: nn.Module, values: Values) -> Tensor:
    """Whether the model classifies each sample correctly."""
    images, labels = values
    return model(images).argmax(dim=1) == labels


def main() -> None:
    """Train and test."""
    arguments, flags = read_arguments(__doc__)
    with Engine([f"--seed={arguments.seed}", *flags]) as engine:
        train_set, test_set = load_digits(arguments.data)
        model = Net(train_set[0][0].shape[-1], not arguments.no_dropout)
        optimizer = AdamW(model.parameters(), lr=arguments.lr)
        schedule = StepLR(optimizer, step_size=1, gamma=arguments.gamma)
        engine.prepare(model, optimizer, losses, schedule)
        epochs = engine.epochs(train_set, arguments.epochs, arguments.batch_size)
        for epoch, batches in epochs:
            for batch in batches:
                engine.step(batch)
            schedule.step()
            correct = engine.evaluate(is_correct, test_set, batch_size=1000)
            engine.print(result_line(epoch, int(correct.sum()), len(correct)))


if __name__ == "__main__":
    main()
