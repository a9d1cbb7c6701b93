"""An episode observes what the policy reads, and ends once."""

import numpy as np
import pytest

from manyhands.config.sections.env import TrayEnvConfig
from manyhands.sim.episode import Act, Begin, Episode, EpisodeSetup
from manyhands.sim.tray.task import CAMERA, STATE, TrayTask

INPUTS = {STATE: (4,), CAMERA: (3, 16, 16)}
STAY = np.zeros((1, 3), np.float32)


def actions_of(number):
    return np.random.default_rng(0).uniform(-0.5, 0.5, (number, 3)).astype(np.float32)


def test_the_first_observation_stands_for_those_before_it():
    episode = Episode(EpisodeSetup(TrayEnvConfig(), INPUTS, num_observations=3))
    seen = episode.run(Begin(5)).observation
    assert seen[STATE].shape == (3, 4)
    assert seen[CAMERA].shape == (3, 16, 16, 3)
    assert (seen[STATE] == TrayTask().reset([5])[STATE]).all()


@pytest.mark.parametrize("sizes", [[1] * 6, [2, 4], [6], [3, 3]])
def test_observations_are_the_latest_however_actions_are_grouped(sizes):
    episode = Episode(EpisodeSetup(TrayEnvConfig(), INPUTS, num_observations=2))
    episode.run(Begin(5))
    actions, states = actions_of(6), []
    task = TrayTask()
    task.reset([5])
    for action in actions:
        states.append(task.step(action[None])[0][STATE][0])
    for chunk in np.split(actions, np.cumsum(sizes)[:-1]):
        segment = episode.run(Act(chunk))
    assert (segment.observation[STATE] == np.stack(states[-2:])).all()


def test_only_read_ticks_are_rendered(monkeypatch):
    episode = Episode(EpisodeSetup(TrayEnvConfig(), INPUTS, num_observations=2))
    episode.run(Begin(5))
    rendered = []
    monkeypatch.setattr(TrayTask, "render", lambda self, size: rendered.append(size) or [0])
    episode.run(Act(actions_of(8)))
    assert rendered == [16, 16]


def test_an_episode_ends_after_its_length_and_takes_no_further_actions():
    episode = Episode(EpisodeSetup(TrayEnvConfig(episode_length=5), INPUTS))
    episode.run(Begin(5))
    first, second = (episode.run(Act(actions_of(3))) for _ in range(2))
    assert (len(first.rewards), first.ended) == (3, False)
    assert (len(second.rewards), second.ended, second.success) == (2, True, False)


def test_a_filmed_episode_shows_its_start_and_every_step():
    class Frames(list):
        add = list.append

        def finish(self):
            return [frame.shape for frame in self]

    episode = Episode(EpisodeSetup(TrayEnvConfig(episode_length=4), {STATE: (4,)}))
    episode.run(Begin(5, Frames()))
    assert episode.run(Act(actions_of(3))).film is None
    assert episode.run(Act(actions_of(3))).film == [(256, 256, 3)] * 5
