"""Real-time chunking, as LeRobot's files hold it."""

from dataclasses import dataclass, field

from manyhands.config.policy import UNSTORED


@dataclass(frozen=True, kw_only=True)
class RtcConfig:
    """Real-time chunking, by which LeRobot's rollouts join one chunk to the next."""

    enabled: bool = True
    """Kept for LeRobot's files."""
    prefix_attention_schedule: str = "LINEAR"
    """Kept for LeRobot's files."""
    max_guidance_weight: float = 10.0
    """Kept for LeRobot's files."""
    execution_horizon: int = 10
    """Kept for LeRobot's files."""
    debug: bool = False
    """Kept for LeRobot's files."""
    debug_maxlen: int = 100
    """Kept for LeRobot's files."""
    # Releases up to 0.6.1 refuse a file with this key; all others have its default.
    mode: str = field(default="guided", metadata={UNSTORED: True})
    """Kept for LeRobot's files; only guided, which SmolVLA has there too."""
