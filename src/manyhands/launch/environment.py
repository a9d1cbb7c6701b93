"""What the launcher of this very process asked for."""

import os

from manyhands.config.launcher import Launcher, read_launcher


def current_launcher() -> Launcher:
    """The place this process was given, from its environment."""
    return read_launcher(os.environ)
