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
    poll_every: int = 1
    """Updates between two questions among ranks about a request to stop."""

    @classmethod
    def from_config(cls, config: TrainConfig, poll_every: int = 1) -> "Due":
        """The periods a config asks for."""
        periods = (config.num_steps, config.log_freq, config.save_freq)
        return cls(*periods, config.save_checkpoint, config.eval_steps, poll_every)

    def log(self, step: int) -> bool:
        """Whether metrics are due after this update."""
        return step == 1 or self._falls(step, self.log_every)

    def save(self, step: int, stopping: bool = False) -> bool:
        """Whether a checkpoint is due after this update, as it is where a run stops early."""
        return self.saves and (stopping or self._falls(step, self.save_every))

    def validate(self, step: int) -> bool:
        """Whether the held-out loss is due after this update."""
        return self.validate_every > 0 and self._falls(step, self.validate_every)

    def poll(self, step: int) -> bool:
        """Whether ranks ask each other after this update about a request to stop.

        They do where one may have cut a measurement short, so that a checkpoint waits for it.
        """
        return step % self.poll_every == 0 or self.validate(step)

    def judge(self, step: int) -> bool:
        """Whether updates so far are judged: at every poll, and before they are told or saved."""
        return self.poll(step) or self.log(step) or self.save(step)

    def _falls(self, step: int, every: int) -> bool:
        return step == self.num_steps or (every > 0 and step % every == 0)
