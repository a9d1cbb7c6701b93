"""Periods of logging, saving, validation, evaluation and NaN checks, in steps."""

import time
from dataclasses import dataclass

import torch

from manyhands.config.train import TrainConfig
from manyhands.parallel.world import World


@dataclass(frozen=True)
class Periods:
    """The schedule of a run: what happens after which step."""

    num_steps: int
    log_every: int
    save_every: int  # Zero saves after the last step only.
    saves: bool = True
    validate_every: int = 0  # Zero measures no held-out loss.
    evaluate_every: int = 0  # Zero runs no episodes in simulation.
    judge_every: int = 1
    """Steps between two NaN checks, each of which synchronizes with the device."""

    @classmethod
    def from_config(cls, config: TrainConfig, judge_every: int = 1) -> "Periods":
        """The periods of a config."""
        return cls(
            num_steps=config.num_steps,
            log_every=config.log_freq,
            save_every=config.save_freq,
            saves=config.save_checkpoint,
            validate_every=config.eval_steps,
            evaluate_every=config.env_eval_freq if config.evaluates else 0,
            judge_every=judge_every,
        )

    def log(self, step: int) -> bool:
        """Whether to log metrics after this step."""
        return step == 1 or self._falls(step, self.log_every)

    def save(self, step: int, stopping: bool = False) -> bool:
        """Whether to save a checkpoint after this step; always when a run stops early."""
        return self.saves and (stopping or self._falls(step, self.save_every))

    def validate(self, step: int) -> bool:
        """Whether to measure the held-out loss after this step."""
        return self.validate_every > 0 and self._falls(step, self.validate_every)

    def evaluate(self, step: int) -> bool:
        """Whether to run episodes in simulation after this step."""
        return self.evaluate_every > 0 and self._falls(step, self.evaluate_every)

    def measure(self, step: int) -> bool:
        """Whether the policy is measured in any way after this step."""
        return self.validate(step) or self.evaluate(step)

    def record(self, step: int) -> bool:
        """Whether this step has a row of metrics."""
        return self.log(step) or self.measure(step)

    def judge(self, step: int, stopping: bool = False) -> bool:
        """Whether to check steps for NaN: periodically, and before they are logged or saved."""
        # Never by time: a rollback skips all samples up to the check, and a resumed run has to skip
        # the same samples.
        is_used = self.record(step) or self.save(step) or stopping
        return is_used or step % self.judge_every == 0

    def _falls(self, step: int, every: int) -> bool:
        return step == self.num_steps or (every > 0 and step % every == 0)


# A poll is a collective, so all ranks must call it after the same step. Each poll therefore
# gathers how long steps took on every rank, and all compute the next poll from the same values.
PERIOD_S = 0.5  # Time between two polls. An all-gather over gloo takes about a millisecond.
MAX_STEPS = 100  # Steps between two polls at most: steps may become slower before the next one.
MAX_GROWTH = 2  # How much longer an interval may be than the one before it.


class StopPoll:
    """Polls all ranks periodically for a stop request."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._interval = 1
        self._num_steps = 0
        self._since = time.monotonic()

    def after_step(self, force: bool = False) -> bool:
        """Collective. Whether to stop after this step; False where ranks do not poll.

        All ranks must agree on `force`.
        Counts calls: after a rollback the numbers of steps start again from a smaller one.
        """
        self._num_steps += 1
        return self.poll() if force or self._num_steps >= self._interval else False

    def poll(self) -> bool:
        """Collective. Whether to stop now."""
        wait_for_device(self._world.device)
        now = time.monotonic()
        step_s = (now - self._since) / max(1, self._num_steps)
        gathered = self._world.gather((self._world.is_asked_to_stop, step_s))
        self._interval = next_interval(self._interval, max(seconds for _, seconds in gathered))
        self._num_steps, self._since = 0, now
        return any(is_requested for is_requested, _ in gathered)


def next_interval(interval: int, step_s: float) -> int:
    """Steps until the next poll, after an interval in which a step took so long."""
    in_time = int(PERIOD_S / step_s) if step_s > 0 else MAX_STEPS
    return max(1, min(in_time, MAX_GROWTH * interval, MAX_STEPS))


def wait_for_device(device: torch.device) -> None:
    """Wait until the device has finished all steps so far."""
    # The host may be many steps ahead of it, and a checkpoint has to wait for all of them.
    if device.type == "cuda":
        torch.cuda.synchronize(device)
