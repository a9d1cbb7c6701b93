"""Environments of gymnasium."""

import importlib
import importlib.util
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from manyhands.config.sections.env import GymEnvConfig
from manyhands.errors import EnvironmentFault, UserError
from manyhands.launch.environment import render_without_display, same_library_path
from manyhands.sim.environment import Observation, Shapes, StepOutcome, given_inputs
from manyhands.sim.rendering import explaining_rendering

INSTALL = "Install: pip install 'manyhands[sim]'"
OWN_PACKAGES = ("gym_pusht", "gym_aloha")
"""What the extra `sim` installs."""

NO_MODE = re.compile(r"unexpected keyword argument '?render_mode")
"""What Python says of a constructor that takes no render mode."""

# pygame says so in every process that imports it.
warnings.filterwarnings("ignore", message="pkg_resources is deprecated")


class GymEnvironment:
    """Any registered environment; the config says which observation is which input."""

    def __init__(
        self, config: GymEnvConfig, inputs: Shapes, optional: Collection[str] = ()
    ) -> None:
        self.instruction = config.instruction
        self._success = SuccessEntry(config.success_key)
        self._max_steps = config.episode_length
        self._num_steps = 0
        assert config.task is not None
        self._name = f"--env.task={config.task}"
        self._env = make_rendering(config.task, config.package, config.gym_kwargs)
        offered = dict(flattened(self._env.observation_space.sample()))
        self._keys = choose_keys(config.observation_keys, offered, inputs, optional)
        self.action_size = action_size_of(config.task, self._env.action_space)
        self._values: Mapping[str, np.ndarray] = {}

    def reset(self, seed: int) -> None:
        """Begin the episode of a seed."""
        with explaining_rendering(self._name):
            values, _ = self._env.reset(seed=seed)
        self._values = dict(flattened(values))
        self._success.forget()
        self._num_steps = 0

    def step(self, action: np.ndarray) -> StepOutcome:
        """Execute one action."""
        with explaining_rendering(self._name):
            values, reward, terminated, truncated, info = self._env.step(self._as_taken(action))
        self._values = dict(flattened(values))
        success = self._success.of_step(info)
        ended = bool(terminated or truncated or success)
        self._num_steps += 1
        if ended or self._num_steps >= self._max_steps:
            self._success.check()
        return StepOutcome(float(reward), success, ended)

    def observe(self) -> Observation:
        """What the policy reads of the current state."""
        return {name: as_input(self._values[key]) for name, key in self._keys.items()}

    def render(self) -> np.ndarray:
        """An image (height, width, 3) for people."""
        image = None
        # One without a mode may have no render() of its own.
        with explaining_rendering(self._name), suppress(NotImplementedError):
            image = self._env.render()
        if image is None:
            raise UserError(
                f"{self._name} renders no images. Set "
                "--env.gym_kwargs={render_mode: rgb_array}, or --max_videos=0"
            )
        return as_frame(image, self._name)

    def _as_taken(self, action: np.ndarray) -> Any:
        space = self._env.action_space
        if not space.shape:
            return int(np.rint(action).item())
        rounded = np.rint(action) if np.issubdtype(space.dtype, np.integer) else action
        return rounded.astype(space.dtype).reshape(space.shape)


class SuccessEntry:
    """The entry of an environment's info that says whether the task is done."""

    def __init__(self, key: str | None) -> None:
        self._key = key
        self._seen: set[str] = set()
        """Entries of the info in any step of the episode."""

    def forget(self) -> None:
        """Begin an episode."""
        self._seen.clear()

    def of_step(self, info: Mapping[str, Any]) -> bool:
        """Whether the info of a step says so."""
        # Environments that reset themselves have the info of the last step in another one.
        final = info.get("final_info")
        entries = {**info, **final} if isinstance(final, Mapping) else info
        self._seen |= entries.keys()
        return self._key is not None and bool(entries.get(self._key, False))

    def check(self) -> None:
        """Reject an episode in no step of which the info had the entry: it may be misspelled."""
        if self._key is None or self._key in self._seen:
            return
        seen = sorted(map(str, self._seen))
        likely = [name for name in seen if "success" in name.lower()]
        remedy = (
            "null if none of them is the success: then only rewards are measured. An environment "
            "that reports it only when it succeeds must report it in every step"
        )
        raise UserError(
            f"--env.success_key={self._key} is not in info, which "
            + (f"has {', '.join(seen)}" if seen else "is empty")
            + f". Set --env.success_key={likely[0] if likely else remedy}"
        )


def make_rendering(task: str, package: str | None, arguments: Mapping[str, Any]) -> Any:
    """Make an environment that renders images where its constructor takes a render mode."""
    try:
        return make(task, package, **{"render_mode": "rgb_array"} | dict(arguments))
    except UserError as error:
        if arguments.get("render_mode") is not None or not NO_MODE.search(str(error)):
            raise
    others = {name: value for name, value in arguments.items() if name != "render_mode"}
    return make(task, package, **others)


def make(task: str, package: str | None, **arguments: Any) -> Any:
    """Make a registered environment, without a display."""
    render_without_display()
    gymnasium = imported("gymnasium")
    if package is not None:
        if package not in OWN_PACKAGES and not importlib.util.find_spec(package.split(".")[0]):
            raise UserError(
                f"--env.package={package} is not installed. Install it, or add its folder to "
                "PYTHONPATH"
            )
        needed = f"--env.package={package} needs it"
        imported(package, INSTALL if package in OWN_PACKAGES else needed)
    try:
        with same_library_path(), explaining_rendering(task):
            return gymnasium.make(task, disable_env_checker=True, **arguments)
    except gymnasium.error.UnregisteredEnv as error:
        hint = "" if package else ". Set --env.package=<package that registers it>"
        raise UserError(f"--env.task={task}: {error}{hint}") from None
    except (gymnasium.error.Error, TypeError) as error:
        raise UserError(f"--env.task={task}: {error}. Check --env.gym_kwargs") from None


def action_size_of(task: str, space: Any) -> int:
    """Numbers in an action of a space."""
    if space.shape is None:
        raise UserError(
            f"--env.task={task} takes actions of the space {space}, but a policy gives one array. "
            "Choose an environment whose actions are an array or a single number"
        )
    return int(np.prod(space.shape))


def imported(package: str, remedy: str = INSTALL) -> Any:
    """Import a package of the extra `sim`, or another one with its own remedy."""
    try:
        with explaining_rendering(f"package {package}"):
            return importlib.import_module(package)
    except ModuleNotFoundError as error:
        name = str(error.name).replace("_", "-")
        raise EnvironmentFault(f"package {name} is missing. {remedy}") from None
    except (ImportError, OSError, AttributeError) as error:
        raise EnvironmentFault(f"package {package} cannot be imported: {error}. {remedy}") from None


def flattened(values: Any, prefix: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """Arrays of a nested observation, by their keys joined with slashes."""
    if not isinstance(values, dict):
        yield prefix or "observation", np.asarray(values)
        return
    for name, value in values.items():
        yield from flattened(value, f"{prefix}/{name}" if prefix else name)


def choose_keys(
    declared: Mapping[str, str],
    offered: Mapping[str, np.ndarray],
    inputs: Shapes,
    optional: Collection[str] = (),
) -> dict[str, str]:
    """The environment's key for every input; rejects inputs that no observation can be."""
    unknown = [name for name in declared if name not in inputs]
    if unknown:
        raise UserError(
            f"--env.observation_keys names {', '.join(unknown)}, which the policy does not read; "
            f"it reads {', '.join(inputs)}"
        )
    keys = {name: declared.get(name) or usual_key(name, offered) for name in inputs}
    found = [name for name in inputs if name in declared or keys[name] in offered]
    inputs = given_inputs(inputs, found, optional)
    keys = {name: keys[name] for name in inputs}
    shapes = {key: as_input(value).shape for key, value in offered.items()}
    wrong = [name for name, key in keys.items() if shapes.get(key) != stored_shape(inputs[name])]
    if not wrong:
        return keys
    faults = []
    for name in wrong:
        key = keys.pop(name)
        seen = f"has shape {shapes[key]}" if key in shapes else "is missing"
        faults.append(
            f"the policy reads {name} {tuple(inputs[name])}, but {key} of the environment {seen}"
        )
    for name in wrong:
        fits = [key for key, shape in shapes.items() if shape == stored_shape(inputs[name])]
        unused = [key for key in fits if key not in keys.values()]
        keys[name] = next(iter(unused or fits), "<key>")
    proposed = {name: keys[name] for name in inputs if name in declared or name in wrong}
    mapping = ", ".join(f"{name}: {key}" for name, key in proposed.items())
    raise UserError(
        "\n".join(faults)
        + f"\nThe environment gives {', '.join(f'{key} {shapes[key]}' for key in shapes)}. Set "
        f"--env.observation_keys={{{mapping}}}"
    )


def usual_key(name: str, offered: Mapping[str, np.ndarray]) -> str:
    """The key that LeRobot's processors read for an input."""
    usual = {
        "observation.state": ("agent_pos", "observation"),
        "observation.environment_state": ("environment_state",),
        "observation.image": ("pixels",),
    }
    camera = name.removeprefix("observation.images.")
    candidates = usual.get(name, (f"pixels/{camera}", name, camera))
    return next((key for key in candidates if key in offered), candidates[0])


def stored_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an input as observations have it: images with their channels last."""
    return (*shape[1:], shape[0]) if len(shape) == 3 else tuple(shape)


def as_frame(rendered: Any, what: str) -> np.ndarray:
    """A rendered image as bytes (height, width, 3): alpha is dropped, grey is repeated."""
    image = np.asarray(rendered)
    channels = image.shape[2] if image.ndim == 3 else 1
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or channels not in (1, 3, 4):
        raise UserError(
            f"{what} renders {image.dtype} of shape {image.shape}, but videos are made "
            "of uint8 (height, width, 3). Change its render(), or set --max_videos=0"
        )
    if channels == 1:
        return np.repeat(image.reshape(*image.shape[:2], 1), 3, axis=2)
    return image[..., :3]


def as_input(value: np.ndarray) -> np.ndarray:
    """Bytes as they are, numbers as float32."""
    return value if value.dtype == np.uint8 else np.atleast_1d(value.astype(np.float32))
