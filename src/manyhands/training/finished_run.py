"""A resumed run that is finished: it is reported, and nothing else is loaded."""

import sys

from manyhands.config.launch.launcher import Launcher
from manyhands.config.runs.run_state import finished_message, refuse_folder_in_use
from manyhands.config.sections.trackers import enabled_trackers
from manyhands.config.train import TrainConfig
from manyhands.observe.wrapping import print_wrapped
from manyhands.stop import StopSignal


def has_nothing_to_do(config: TrainConfig, launcher: Launcher, stop: StopSignal) -> bool:
    """Whether a resumed run is finished, which is printed; raises if its folder is in use.

    Its trackers log what they lack first.
    """
    if launcher.is_ours:
        return False  # The process that started this one has looked.
    if launcher.is_main and config.output_dir is not None:
        refuse_folder_in_use(config.output_dir)
    message = finished_message(config)
    if message is not None and launcher.is_main:
        if enabled_trackers(config):
            # Imports torch, which most finished runs do not need.
            from manyhands.training.tracker_completion import complete_trackers

            complete_trackers(config, stop)
        print_wrapped(message, sys.stdout)
    return message is not None
