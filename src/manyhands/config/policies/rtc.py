"""Real-time chunking settings, as in LeRobot's files."""

from dataclasses import dataclass, field

from manyhands.config.policies.base import UNSTORED


@dataclass(frozen=True, kw_only=True)
class RtcConfig:
    """Real-time chunking, by which LeRobot's rollouts blend consecutive chunks."""

    enabled: bool = True
    """Stored for LeRobot; no effect here."""
    prefix_attention_schedule: str = "LINEAR"
    """Stored for LeRobot; no effect here."""
    max_guidance_weight: float = 10.0
    """Stored for LeRobot; no effect here."""
    execution_horizon: int = 10
    """Stored for LeRobot; no effect here."""
    debug: bool = False
    """Stored for LeRobot; no effect here."""
    debug_maxlen: int = 100
    """Stored for LeRobot; no effect here."""
    # Releases up to 0.6.1 reject a file with this key; later ones have its default.
    mode: str = field(default="guided", metadata={UNSTORED: True})
    """Stored for LeRobot; only guided is supported."""
