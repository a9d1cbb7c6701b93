"""Episodes of an evaluation in simulation."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class EvalConfig:
    """Evaluation in simulation."""

    n_episodes: int = 50
    """Episodes, with consecutive seeds."""
    batch_size: int = 0
    """Environments per process; 0, and at most: 8 on a CPU, 32 to 256 on a GPU by image size."""
    use_async_envs: bool = True
    """Run each environment in a process of its own."""
    timeout_s: float = 120.0
    """Seconds that an environment in a process may take to start, reset or act."""
    expected_success: tuple[float, float] | None = None
    """Expected success in percent, [low,high]: the result is reproduced, above or below."""

    def faults(self) -> list[str]:
        """Return every invalid value."""
        rules = {"n_episodes": 1, "batch_size": 0}
        faults = [
            f"--eval.{name}={getattr(self, name)} must be at least {least}"
            for name, least in rules.items()
            if getattr(self, name) < least
        ]
        if not self.timeout_s > 0:
            faults.append(f"--eval.timeout_s={self.timeout_s} must be greater than 0")
        low, high = self.expected_success or (0.0, 100.0)
        is_fraction = 0 < high <= 1
        if is_fraction or not 0 <= low <= high <= 100:
            faults.append(
                f"--eval.expected_success=[{low:g},{high:g}] must be percentages from 0 to 100, "
                "the lower one first, such as [59.5,67.9]"
            )
        return faults


@dataclass(frozen=True, kw_only=True)
class TrainEvalConfig(EvalConfig):
    """Evaluation during training."""

    async_: bool = False
    """Evaluate in a side process while training continues, instead of on all processes."""
    open_loop: bool = False
    """At each --eval_steps, also compare predicted with recorded actions of held-out episodes."""
