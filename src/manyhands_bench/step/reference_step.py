"""Times LeRobot's steps. Runs in a Python environment that has LeRobot.

Reads a JSON object from standard input and prints one: the seconds of every step and of the first,
and the peak memory.
"""

import importlib
import json
import resource
import sys
import time
from itertools import pairwise
from typing import Any

NUM_PLANNED = 100_000
"""Steps of the learning rate schedule."""


def main() -> None:
    """Measure a request."""
    print(json.dumps(measure(json.load(sys.stdin))))


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Run steps as LeRobot's training does, on one batch on the device."""
    import torch

    device: Any = torch.device(request["device"])
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = True
    batch = random_batch(request["shapes"], device)
    if request["task"] is not None:
        batch["task"] = [request["task"]] * len(batch["action"])
    update = updates_of(request, batch)
    started = time.perf_counter()
    update()
    wait_for(device)
    setup_s = time.perf_counter() - started
    for _ in range(request["warm_up"]):
        update()
    times = step_times(update, request["num_steps"], device)
    return {"step_s": times, "setup_s": setup_s, "peak_bytes": peak_bytes(device)}


def updates_of(request: dict[str, Any], batch: dict[str, Any]) -> Any:
    """A function that runs one step: preprocessing, both passes, optimizer and schedule."""
    import torch

    factory: Any = importlib.import_module("lerobot.policies.factory")
    kind: Any = importlib.import_module("lerobot.configs.policies").PreTrainedConfig
    config = kind.from_pretrained(request["folder"])
    config.device = request["device"].partition(":")[0]
    policy = factory.get_policy_class(config.type)(config).to(request["device"]).train()
    preprocess, _ = factory.make_pre_post_processors(config, pretrained_path=request["folder"])
    preset, planned = config.get_optimizer_preset(), config.get_scheduler_preset()
    optimizer = preset.build(policy.get_optim_params())
    schedule = None if planned is None else planned.build(optimizer, NUM_PLANNED)
    rounded = request["precision"] == "bf16"

    def update() -> None:
        prepared = preprocess(as_floats(batch))
        with torch.autocast(config.device, torch.bfloat16, enabled=rounded):
            loss, _ = policy.forward(prepared)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), preset.grad_clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        if schedule is not None:
            schedule.step()
        # LeRobot's training reads both after every step, and so synchronizes.
        loss.item(), norm.item()

    return update


def random_batch(shapes: dict[str, Any], device: Any) -> dict[str, Any]:
    """A random batch of given types and shapes."""
    import torch

    batch = {}
    for name, (kind, shape) in shapes.items():
        dtype = getattr(torch, kind)
        if dtype.is_floating_point:
            batch[name] = torch.randn(shape, dtype=dtype, device=device)
        else:
            # Padding masks are all zero, other integers are image bytes.
            top = 256 if dtype is torch.uint8 else 1
            batch[name] = torch.randint(top, shape, device=device).to(dtype)
    return batch


def as_floats(batch: dict[str, Any]) -> dict[str, Any]:
    """The batch with images as floats from 0 to 1, as in LeRobot's training."""
    import torch

    def is_image(value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.dtype == torch.uint8

    return {
        name: value.to(torch.float32) / 255.0 if is_image(value) else value
        for name, value in batch.items()
    }


def step_times(update: Any, number: int, device: Any) -> list[float]:
    """Seconds of each step, by the clock of the device."""
    import torch

    if device.type != "cuda":
        marks = [time.perf_counter()]
        for _ in range(number):
            update()
            marks.append(time.perf_counter())
        return [end - start for start, end in pairwise(marks)]
    cuda: Any = torch.cuda
    events = [cuda.Event(enable_timing=True) for _ in range(number + 1)]
    events[0].record()
    for event in events[1:]:
        update()
        event.record()
    wait_for(device)
    return [start.elapsed_time(end) / 1e3 for start, end in pairwise(events)]


def wait_for(device: Any) -> None:
    """Wait until a device is idle."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize()


def peak_bytes(device: Any) -> int:
    """Peak bytes of tensors on a GPU; on a CPU of this process."""
    import torch

    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
