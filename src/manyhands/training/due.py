"""When things happen: periods counted in updates."""

from dataclasses import dataclass

from manyhands.config.train import TrainConfig


@dataclass(frozen=True)
class Due:
    """Which updates are followed by what."""

    num_steps: int
    log_every: int
    save_every: int
    """Zero saves after the last update only."""
    saves: bool = True
    validate_every: int = 0
    """Zero measures no held-out loss."""
    judge_every: int = 1
    """Steps between two looks for non-finite ones, each of which waits for the device."""

    @classmethod
    def from_config(cls, config: TrainConfig, judge_every: int = 1) -> "Due":
        """The periods a config asks for."""
        periods = (config.num_steps, config.log_freq, config.save_freq)
        return cls(*periods, config.save_checkpoint, config.eval_steps, judge_every)

    def log(self, step: int) -> bool:
        """Whether metrics are due after this update."""
        return step == 1 or self._falls(step, self.log_every)

    def save(self, step: int, stopping: bool = False) -> bool:
        """Whether a checkpoint is due after this update, as it is where a run stops early."""
        return self.saves and (stopping or self._falls(step, self.save_every))

    def validate(self, step: int) -> bool:
        """Whether the held-out loss is due after this update."""
        return self.validate_every > 0 and self._falls(step, self.validate_every)

    def judge(self, step: int, stopping: bool = False) -> bool:
        """Whether steps so far are judged: by their number, and before they are logged or saved.

        Never by the time: a rollback skips all samples up to where it is judged, and a resumed run
        has to skip the same.
        """
        is_used = self.log(step) or self.save(step) or self.validate(step) or stopping
        return is_used or step % self.judge_every == 0

    def _falls(self, step: int, every: int) -> bool:
        return step == self.num_steps or (every > 0 and step % every == 0)
