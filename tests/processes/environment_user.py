"""A rank: it begins an episode, prints its process, and ends once nothing more is typed."""

import sys

import numpy as np

from manyhands.config.sections.env import GymEnvConfig
from manyhands.sim.episode import Act, Begin, EpisodeSetup
from manyhands.sim.slot import ProcessSlot, answer

if __name__ == "__main__":
    faults = {"faults": {7: sys.argv[1]}}
    config = GymEnvConfig(task="toys/Point-v0", package="toy_worlds", gym_kwargs=faults)
    slot = ProcessSlot(EpisodeSetup(config, {"observation.state": (4,)}), 60)
    answer(slot, Begin(7))
    slot.send(Act(np.zeros((3, 3), np.float32)))
    print(slot._process.pid, flush=True)
    sys.stdin.read()
