"""Flags that make steps larger or smaller, by what the batch of a run follows from."""

from typing import NamedTuple

from manyhands.observe.diagnosis.history import History

ACCUMULATION = "--accelerator.gradient_accumulation.steps"


class BatchChange(NamedTuple):
    """Flags that change the micro-batch, by which factor, and what becomes of the batch."""

    flags: str
    factor: float
    consequence: str


SAME = "the same effective batch"


def samples_per_process(history: History) -> int:
    """Samples of a micro-batch."""
    number: int = history.fact("batch.per_process", 8)
    return number


def larger_micro_batch(history: History) -> BatchChange:
    """Larger micro-batches: from accumulation if there is any, else with a larger batch."""
    size, parts = samples_per_process(history), history.fact("batch.accumulation", 1)
    if parts == 1:
        return BatchChange(larger_step(history), 2, effective_change(history))
    if history.setting("global_batch_size") is not None:
        most = -(-history.fact("batch.effective", 0) // history.fact("batch.processes", 1))
        larger = min(2 * size, most)
        return BatchChange(f"--batch_size={larger}", larger / size, SAME)
    factor = smallest_divisor(parts)
    flags = f"--batch_size={factor * size} {ACCUMULATION}={parts // factor}"
    return BatchChange(flags, factor, SAME)


def larger_step(history: History) -> str:
    """The flags that double the effective batch, in as many micro-batches."""
    size, whole = samples_per_process(history), history.setting("global_batch_size")
    is_set = whole is None or history.setting("batch_size") is not None
    flags = [f"--batch_size={2 * size}"] if is_set else []
    return " ".join(flags if whole is None else [*flags, f"--global_batch_size={2 * whole}"])


def effective_change(history: History) -> str:
    """What a doubled batch changes."""
    effective = history.fact("batch.effective", 0)
    return f"the effective batch grows from {effective} to {2 * effective}"


def smaller_micro_batch(history: History) -> str:
    """The flags that make micro-batches of several samples smaller, in the same batch."""
    size, parts = samples_per_process(history), history.fact("batch.accumulation", 1)
    if parts == 1 or history.setting("global_batch_size") is not None:
        return f"--batch_size={-(-size // 2)} --global_batch_size={history.fact('batch.effective')}"
    factor = smallest_divisor(size)
    return f"--batch_size={size // factor} {ACCUMULATION}={parts * factor}"


def less_memory_per_sample(history: History) -> str:
    """The flags that need less GPU memory for micro-batches of one sample."""
    remedies = {
        "--policy.gradient_checkpointing=true": (
            history.setting("policy.gradient_checkpointing") is False
        ),
        "--accelerator.mixed_precision=bf16": (
            str(history.fact("precision")).startswith("float32")
        ),
        "--parallelism.dp_shard=-1": (
            history.fact("batch.processes", 1) > 1 and history.fact("strategy") == "DDP"
        ),
        "a smaller --dataset.image_size": history.fact("loading.frame_cache") is not None,
    }
    flags = [flag for flag, helps in remedies.items() if helps]
    return f"Set {' or '.join(flags)}" if flags else "Use a smaller policy or a larger GPU"


def smallest_divisor(number: int) -> int:
    """The smallest divisor above one."""
    return next(divisor for divisor in range(2, number + 1) if number % divisor == 0)
