"""A program on the engine: trains a tiny network, and writes what every rank saw of it."""

import json
import os
import signal
import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

import manyhands

NUM_SAMPLES = 23
NUM_EPOCHS = 3
GLOBAL_BATCH = 8


class Points(Dataset):
    """Points with a class each; every read adds noise."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.points = torch.randn(NUM_SAMPLES, 4, generator=generator)
        self.labels = torch.randint(0, 3, (NUM_SAMPLES,), generator=generator)

    def __len__(self) -> int:
        return NUM_SAMPLES

    def __getitem__(self, row: int) -> dict[str, object]:
        noisy = self.points[row] + 0.1 * torch.randn(4)
        return {"point": (noisy, row), "label": self.labels[row]}


def losses(model: nn.Module, values: dict) -> Tensor:
    return functional.cross_entropy(model(values["point"][0]), values["label"], reduction="none")


def rows_and_guesses(model: nn.Module, values: dict) -> Tensor:
    points, rows = values["point"]
    return torch.stack([rows, model(points).argmax(dim=1)], dim=1)


def main(out: Path, stop_at: int, flags: list[str]) -> None:
    """Train; rank 0 asks itself to stop after a step."""
    seen = []
    data = Points()
    with manyhands.Engine(flags) as engine:
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        engine.prepare(model, optimizer, losses, schedule)
        for epoch, batches in engine.epochs(data, NUM_EPOCHS, GLOBAL_BATCH):
            for batch in batches:
                result = engine.step(batch, max_grad_norm=0.5)
                rows = batch.values["point"][1][batch.weights > 0].tolist()
                row = {"step": engine.position.step, "epoch": epoch, "rows": rows}
                row |= {"loss": result.loss.item(), "norm": result.grad_norm.item()}
                seen.append(row | {"lr": optimizer.param_groups[0]["lr"]})
                if engine.position.step == stop_at and engine.world.rank == 0:
                    os.kill(os.getpid(), signal.SIGTERM)
            schedule.step()
        found = engine.evaluate(rows_and_guesses, data, batch_size=5)
        everything = engine.world.gather(seen)
        if engine.config.output_dir is not None:
            engine.save()
        if engine.world.is_main:
            out.write_text(json.dumps({"ranks": everything, "evaluated": found.tolist()}))
        engine.world.barrier()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
