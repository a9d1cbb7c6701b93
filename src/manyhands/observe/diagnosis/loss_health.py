"""Whether a run learns: unstable, spiking or diverged losses, overfitting."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from statistics import median

from manyhands.observe.diagnosis.advice import NOTE, WARNING, Diagnosis
from manyhands.observe.diagnosis.history import (
    MAX_ROWS,
    NUM_RECENT,
    History,
    Row,
    deviation,
    values,
)
from manyhands.observe.diagnosis.loading import frame_cache

NUM_BLOCKS = 4
"""Blocks of rows whose medians show the trend of a loss."""
MIN_LOSSES = 40
"""Losses without which a trend cannot be told from noise: ten for each block."""
MAX_SWING = 0.75
"""Usual change of the loss between two rows, as logarithm: 0.75 is a factor of 2.1. The noise of
batches is below 0.4, even of eight samples with random noise levels."""
MIN_SAMPLES = 8
"""Samples behind a row without which its loss is noise."""
NUM_FIRST = 3
"""Rows at the start whose median is the loss before training."""
MIN_RISE = math.log(1.25)
"""Rise of a block's median loss over the best block's that training should never show."""
MAX_ERRORS = 5.0
"""Standard errors that a rise of the loss has to exceed: noise reaches four in one of many runs."""
MIN_ERRORS = 2.0
"""Standard errors that a fall of the loss has to exceed."""
MEDIAN_ERROR = 1.2533
"""Standard error of a median over that of a mean."""
MIN_GRADIENT_GROWTH = 2.0
"""Growth of gradient norms that goes with steps that are too long."""
MIN_SPIKES = 3
SPIKE_SHARE = 0.02
"""Fewer spikes, or a smaller fraction of rows, are usual: some samples are hard."""
MIN_LASTING = 3
"""Successive rows that are spikes; single hard batches raise the loss of one."""
DIVERGED_FACTOR = 2.0
"""Multiple of the loss before a spike below which the loss has come back."""
MIN_HELD_OUT = 5
NUM_RISEN = 3
"""Newest held-out losses that must all be above the best one."""
MIN_OVERFITTING = 0.05
"""Rise of the held-out loss over its best; the same samples and draws are measured each time."""
PATIENCE = 3
"""Measurements without a better one to propose: as many as show overfitting."""
LR_STEP = 3.0
"""Factor by which to lower a learning rate that is too high: half an order of magnitude."""


def loss_problems(history: History) -> Iterator[Diagnosis]:
    """Every sign in the losses that a run does not learn as it should."""
    yield from unstable_loss(history)
    yield from diverged_loss(history) or spiking_loss(history)
    yield from overfitting(history)


def logarithms(numbers: Sequence[float]) -> list[float]:
    """The logarithms of all positive finite numbers: changes of a loss are relative ones."""
    return [math.log(each) for each in numbers if 0 < each < math.inf]


def block_medians(numbers: Sequence[float]) -> list[float]:
    """The medians of consecutive blocks of equal length."""
    size = len(numbers) // NUM_BLOCKS
    first = len(numbers) - size * NUM_BLOCKS
    starts = range(first, len(numbers), size)
    return [median(numbers[start : start + size]) for start in starts]


def swing(losses: Sequence[float]) -> float:
    """The usual difference of two successive numbers of a noise without trend."""
    changes = [after - before for before, after in pairwise(losses)]
    return deviation(changes) / math.sqrt(2)


def levels(numbers: Sequence[float]) -> list[float]:
    """The level at the start, and those of all blocks."""
    return [median(numbers[:NUM_FIRST]), *block_medians(numbers)]


def rise(losses: Sequence[float]) -> float:
    """How far the last level is above the best before, beyond what noise explains; else zero."""
    *before, last = levels(losses)
    error = MEDIAN_ERROR * swing(losses) / math.sqrt(NUM_FIRST)
    risen = last - min(before)
    return risen if risen > max(MIN_RISE, MAX_ERRORS * error) else 0.0


def is_falling(losses: Sequence[float]) -> bool:
    """Whether the last block is below all before, by more than noise explains."""
    *before, last = block_medians(losses)
    error = MEDIAN_ERROR * swing(losses) / math.sqrt(len(losses) // NUM_BLOCKS)
    return last < min(before) - MIN_ERRORS * error


def unstable_loss(history: History) -> Iterator[Diagnosis]:
    """The loss rises or swings instead of falling: the learning rate is too high."""
    losses = logarithms(values("loss", history.rows[-MAX_ROWS:]))
    batch = history.fact("batch.effective", 0)
    if len(losses) < MIN_LOSSES or batch * steps_per_row(history) < MIN_SAMPLES:
        return
    recent = losses[len(losses) // 2 :]
    risen = rise(losses)
    lr = history.setting("optimizer.lr") or (values("lr", history.settled) or [0.0])[-1]
    remedy = f"Set --optimizer.lr={lr / LR_STEP:.1g}, or a larger --global_batch_size"
    if risen and gradient_growth(history) >= MIN_GRADIENT_GROWTH:
        yield Diagnosis(
            kind="lr_too_high",
            severity=WARNING,
            text=f"The learning rate {lr:.2g} is too high for a batch of {batch}: the loss is "
            f"{math.exp(risen):.1f}x its best so far, and gradients have grown "
            f"{gradient_growth(history):.1f}x",
            remedy=remedy,
            gain=f"a loss {math.exp(risen):.1f}x lower, which this run had already",
        )
    elif swing(recent) > MAX_SWING and not is_falling(losses):
        factor = math.exp(swing(recent))
        yield Diagnosis(
            kind="loss_oscillating",
            severity=WARNING,
            text=f"The loss oscillates by a factor of {factor:.1f} between rows and does not fall",
            remedy=remedy,
            gain="a loss that falls: oscillation grows with the learning rate and shrinks with "
            "the batch",
        )


def steps_per_row(history: History) -> float:
    """Steps behind the usual row."""
    return float(median(row["num_steps"] for row in history.settled))


def gradient_growth(history: History) -> float:
    """The last level of gradient norms over the lowest one before."""
    norms = logarithms(values("grad_norm", history.rows[-MAX_ROWS:]))
    if len(norms) < MIN_LOSSES:
        return 1.0
    *before, last = levels(norms)
    return math.exp(last - min(before))


def diverged_loss(history: History) -> list[Diagnosis]:
    """The loss rose at once to another level, and has not come back."""
    rows = history.settled
    start = start_of_last_rise(rows)
    before = logarithms(values("loss", rows[:start][-NUM_RECENT:]))
    after = logarithms(values("loss", rows[start:]))
    if not before or not after:
        return []
    factor = math.exp(min(after) - median(before))
    if factor <= DIVERGED_FACTOR:
        return []
    step = f"{int(rows[start]['step']):,}"
    return [
        Diagnosis(
            kind="loss_diverged",
            severity=WARNING,
            text=f"Training diverged before step {step}: since then the loss is at least "
            f"{factor:.1f}x what it was",
            remedy=f"Resume an earlier checkpoint with {shorter_steps(history)}",
            gain=f"a loss {factor:.1f}x lower, which this run had already",
        )
    ]


def start_of_last_rise(rows: Sequence[Row]) -> int:
    """Index of the first of the last several successive loss spikes; the number of rows if none."""
    start, found = 0, len(rows)
    for is_spike, group in groupby(rows, key=lambda row: bool(row.get("loss_spike"))):
        size = len([*group])
        if is_spike and size >= MIN_LASTING:
            found = start
        start += size
    return found


def spiking_loss(history: History) -> Iterator[Diagnosis]:
    """Single losses far above the rest, again and again."""
    num_spikes = sum(bool(row.get("loss_spike")) for row in history.settled)
    if num_spikes < max(MIN_SPIKES, SPIKE_SHARE * len(history.settled)):
        return
    is_audited = history.setting("audit", False)
    audit = "audit/ has the samples" if is_audited else "--audit=true writes the samples"
    yield Diagnosis(
        kind="loss_spiking",
        severity=NOTE,
        text=f"The loss spikes: {num_spikes} of the last {len(history.settled)} rows",
        remedy=f"Set {shorter_steps(history)}; {audit} of each step",
        gain="steps that are not lost to single batches",
    )


def shorter_steps(history: History) -> str:
    """The flags that limit what a single batch does to the weights."""
    clip = history.setting("optimizer.grad_clip_norm", 0.0)
    return f"--optimizer.grad_clip_norm={clip / 10 if clip else 1:g}, or a lower --optimizer.lr"


def overfitting(history: History) -> Iterator[Diagnosis]:
    """The held-out loss rises while training continues."""
    # Of all rows: the best one may be long ago, and steady training is not needed for it.
    rows = [row for row in history.rows if values("held_out_loss", [row]) and row.get("step")]
    losses = values("held_out_loss", rows)
    if len(losses) < MIN_HELD_OUT or not all(0 < each < math.inf for each in losses):
        return
    best = min(losses)
    noise = deviation([after - before for before, after in pairwise(losses)])
    limit = best + max(MIN_OVERFITTING * best, MAX_ERRORS * noise / math.sqrt(2))
    if not all(each > limit for each in losses[-NUM_RISEN:]):
        return
    step = int(rows[losses.index(best)]["step"])
    worse = median(losses[-NUM_RISEN:]) / best - 1
    yield Diagnosis(
        kind="overfitting",
        severity=WARNING,
        text=f"The held-out loss increases: it is {worse:.0%} above that of step {step}",
        remedy=f"{ending_remedy(history)}; for a lower loss {more_variety(history)}",
        gain=f"the held-out loss of step {step} was {worse / (1 + worse):.0%} lower",
    )


def ending_remedy(history: History) -> str:
    """How to get the best weights and to save the rest of the time."""
    score, patience = history.setting("keep_best"), history.setting("early_stopping_patience", 0)
    if score is None:
        return f"Set --keep_best=held_out_loss and --early_stopping_patience={PATIENCE}"
    best = f"Use checkpoints/best (--keep_best={score})"
    if patience:
        return f"{best}; the run ends by itself (--early_stopping_patience={patience})"
    return f"{best}, and stop the run or set --early_stopping_patience={PATIENCE}"


def more_variety(history: History) -> str:
    """What makes training data more varied."""
    # Without a frame cache no images are read, or their vision tokens, which cannot be transformed.
    is_possible = bool(frame_cache(history))
    if is_possible and not history.setting("dataset.image_transforms.enable", False):
        return "more data or --dataset.image_transforms.enable=true"
    return "more data"
