"""Episodes of an evaluation in simulation."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class EvalConfig:
    """Evaluation in simulation."""

    n_episodes: int = 50
    """Episodes, with consecutive seeds."""
    batch_size: int = 0
    """Environments per process; 0: as many as the policy predicts for at once."""
    use_async_envs: bool = True
    """Run each environment in a process of its own."""

    def faults(self) -> list[str]:
        """Return every invalid value."""
        rules = {"n_episodes": 1, "batch_size": 0}
        return [
            f"--eval.{name}={getattr(self, name)} must be at least {least}"
            for name, least in rules.items()
            if getattr(self, name) < least
        ]


@dataclass(frozen=True, kw_only=True)
class TrainEvalConfig(EvalConfig):
    """Evaluation in simulation during training."""

    async_: bool = False
    """Evaluate in a side process while training continues, instead of on all processes."""
