"""Small environments for gymnasium, some of whose episodes fail."""

import os
import time

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

VECTOR = Box(-np.inf, np.inf, (4,), np.float64)


class Point(gymnasium.Env):
    """A point that actions move; near the goal it is done. Faults are by the seed of an episode."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    action_space = Box(-1, 1, (3,), np.float32)
    observation_space = Dict(
        agent_pos=VECTOR,
        world=Dict(goal=VECTOR, top=Box(0, 255, (8, 6, 3), np.uint8)),
    )

    def __init__(self, render_mode=None, near=0.2, faults=None, **on):
        assert on.keys() <= {"on_build", "on_reset", "on_render"}, on
        fail(on.get("on_build"))
        self.render_mode = render_mode
        self._near = near
        self._faults = faults or {}
        self._on_reset, self._on_render = on.get("on_reset"), on.get("on_render")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        fail(self._on_reset)
        self._fault = self._faults.get(seed)
        self._position, self._goal = self.np_random.uniform(-1, 1, (2, 4))
        return self._observation(), {}

    def step(self, action):
        fail(self._fault)
        self._position[:3] += 0.1 * action
        distance = float(np.abs(self._position - self._goal).max())
        info = {"is_success": distance < self._near, "arrived": distance < 1.0}
        return self._observation(), -distance, False, False, info

    def render(self):
        fail(self._on_render)
        if self._on_render == "float":
            return np.zeros((32, 48, 3), np.float32)
        return None if self.render_mode is None else np.zeros((32, 48, 3), np.uint8)

    def _observation(self):
        top = np.full((8, 6, 3), 7, np.uint8)
        world = {"goal": self._goal, "top": top}
        return {"agent_pos": self._position.copy(), "world": world}


class Buttons(gymnasium.Env):
    """Three buttons: the last one ends the episode."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    action_space = Discrete(3)
    observation_space = VECTOR

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        return np.full(4, float(seed)), {}

    def step(self, action):
        assert isinstance(action, int)
        return np.full(4, float(action)), float(action), action == 2, False, {}


class Blind(Point):
    """A point whose constructor takes no render mode, and that renders nothing."""

    render = gymnasium.Env.render

    def __init__(self, near=0.2):
        super().__init__(near=near)


def fail(how):
    """Raise, die or hang."""
    if how == "raise":
        raise ValueError("the toy is broken")
    if how == "no egl":
        raise ImportError("('Unable to load EGL library', 'EGL', None)")
    if how == "die":
        os.kill(os.getpid(), 9)
    while how == "spin":
        pass
    if how == "hang":
        time.sleep(3600)


gymnasium.register("toys/Point-v0", Point)
gymnasium.register("toys/Buttons-v0", Buttons)
gymnasium.register("toys/Blind-v0", Blind)
