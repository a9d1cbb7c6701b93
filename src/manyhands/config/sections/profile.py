"""Which steps --profile asks for."""

FEW = "steps"
WARM_UP, NUM_STEPS = 10, 5
"""Steps before those that --profile=steps profiles, and their number."""


def profiled_steps(profile: str | None, start: int) -> range | None:
    """The steps to profile of a run that starts after a step; raises ValueError."""
    if profile is None:
        return None
    if profile == FEW:
        return range(start + WARM_UP + 1, start + WARM_UP + 1 + NUM_STEPS)
    first, _, last = profile.partition(":")
    steps = range(int(first), int(last) + 1)
    if not steps or steps.start < 1:
        raise ValueError
    return steps


def profile_faults(profile: str | None) -> list[str]:
    """Why a text names no steps."""
    try:
        profiled_steps(profile, start=0)
    except ValueError:
        return [
            f"--profile={profile} is not a range of steps. Write --profile=steps, or the first and "
            "the last step: --profile=100:105"
        ]
    return []
