"""When things happen: periods counted in updates."""

from dataclasses import dataclass

from manyhands.config.train import TrainConfig

POLL_EVERY = 10


@dataclass(frozen=True)
class Due:
    """Which updates are followed by what."""

    num_steps: int
    log_every: int
    save_every: int
    """Zero saves after the last update only."""
    saves: bool = True

    @classmethod
    def from_config(cls, config: TrainConfig) -> "Due":
        """The periods a config asks for."""
        return cls(config.steps, config.log_freq, config.save_freq, config.save_checkpoint)

    def log(self, step: int) -> bool:
        """Whether metrics are due after this update."""
        return step == 1 or self._falls(step, self.log_every)

    def save(self, step: int) -> bool:
        """Whether a checkpoint is due after this update."""
        return self.saves and self._falls(step, self.save_every)

    def poll(self, step: int) -> bool:
        """Whether ranks ask each other about a request to stop; rare, since asking has a price."""
        return step % POLL_EVERY == 0

    def _falls(self, step: int, every: int) -> bool:
        return step == self.num_steps or (every > 0 and step % every == 0)
