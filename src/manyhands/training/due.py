"""Periods of logging, saving, validation and NaN checks, in steps."""

from dataclasses import dataclass

from manyhands.config.train import TrainConfig


@dataclass(frozen=True)
class Due:
    """The schedule of a run: what happens after which step."""

    num_steps: int
    log_every: int
    save_every: int
    """Zero saves after the last step only."""
    saves: bool = True
    validate_every: int = 0
    """Zero measures no held-out loss."""
    judge_every: int = 1
    """Steps between two NaN checks, each of which synchronizes with the device."""

    @classmethod
    def from_config(cls, config: TrainConfig, judge_every: int = 1) -> "Due":
        """The periods of a config."""
        periods = (config.num_steps, config.log_freq, config.save_freq)
        return cls(*periods, config.save_checkpoint, config.eval_steps, judge_every)

    def log(self, step: int) -> bool:
        """Whether to log metrics after this step."""
        return step == 1 or self._falls(step, self.log_every)

    def save(self, step: int, stopping: bool = False) -> bool:
        """Whether to save a checkpoint after this step; always when a run stops early."""
        return self.saves and (stopping or self._falls(step, self.save_every))

    def validate(self, step: int) -> bool:
        """Whether to measure the held-out loss after this step."""
        return self.validate_every > 0 and self._falls(step, self.validate_every)

    def judge(self, step: int, stopping: bool = False) -> bool:
        """Whether to check steps for NaN: periodically, and before they are logged or saved.

        Never by time: a rollback skips all samples up to the check, and a resumed run has to skip
        the same samples.
        """
        is_used = self.log(step) or self.save(step) or self.validate(step) or stopping
        return is_used or step % self.judge_every == 0

    def _falls(self, step: int, every: int) -> bool:
        return step == self.num_steps or (every > 0 and step % every == 0)
