"""A mapping proposed from the names that recorders and benchmarks use."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from manyhands.data.importing.mapping import (
    DONE,
    FeatureMapping,
    Part,
    check_mapping,
    parse_parts,
)
from manyhands.data.importing.source import ImportSource, listed
from manyhands.errors import ConfigError, DatasetError
from manyhands.lerobot_format import names

_STATE = f"{names.OBSERVATION}.state"
_REWARD = "next.reward"
_RATE_TOLERANCE = 0.01  # Timestamps are rounded
# The first pattern that fits any column gives all columns that it fits.
_STATES = (
    r"qpos|agent_pos",
    r"robot\d+_(eef_pos|eef_quat|eef_rot_axis_angle|gripper_qpos|gripper_width)",
    r"ee_states|gripper_states",
    r"robot_(eef_pose|joint|joint_pos)|gripper_position",
    r"state|proprio|robot_state|observation\.state",
    r"joint_pos(ition)?s?",
)
_ENVIRONMENT_STATES = (r"object|env_state|environment_state|keypoint",)
_ACTIONS = (r"actions?",)
_REWARDS = (r"rewards?|next\.reward",)
_DONES = (r"dones?|is_last|next\.done",)
_TEXTS = (r"(natural_)?language_instruction|instruction|language_raw|task|prompt",)
# Not observed: simulator states, observations of the following frame, precomputed features.
_IGNORED = re.compile(r"(^|/)(next_obs|states$|model_file|.*_embedding)")
_CAMERA_SUFFIX = re.compile(r"[._-]?(image|images|img|rgb|color|frames?|path)$")


def propose_mapping(source: ImportSource) -> FeatureMapping:
    """Propose which columns become which features; raises DatasetError without an action."""
    features = {key: tuple(map(Part, columns)) for key, columns in _proposed(source)}
    if names.ACTION not in features:
        raise DatasetError(
            f"{source.path}: no column is named action. Set --features='{{action: COLUMN, ...}}'; "
            f"its columns are: {listed(source.columns)}"
        )
    return FeatureMapping(features)


def chosen_mapping(source: ImportSource, entries: Mapping[str, Any]) -> FeatureMapping:
    """The mapping that entries of a file or of flags describe; the rest is proposed."""
    if "features" in entries:
        features = {key: parse_parts(str(each)) for key, each in entries["features"].items()}
    else:
        features = propose_mapping(source).features
    given = {key: value for key, value in entries.items() if key != "features"}
    if "task" not in given:
        given.setdefault("task_column", _task_column(source))
    if source.fps is not None and _is_whole(source.fps):
        given.setdefault("fps", round(source.fps))
    mapping = FeatureMapping(features, **given)
    check_mapping(mapping, source)
    return mapping


def check_complete(mapping: FeatureMapping, source: ImportSource) -> None:
    """Reject a mapping without what the source does not hold."""
    faults = []
    if mapping.fps is None:
        measured = "" if source.fps is None else f" as an integer (it measures {source.fps:g})"
        faults.append(f"{source.path} does not hold its frame rate{measured}. Set --fps=N")
    if mapping.task is None and mapping.task_column is None:
        faults.append(f"{source.path} does not describe its task. Set --task='TEXT'")
    if faults:
        raise ConfigError(faults)


def _task_column(source: ImportSource) -> str | None:
    texts = [name for name, column in source.columns.items() if column.is_text]
    return next(iter(_first_fit(texts, _TEXTS)), None)


def _is_whole(fps: float) -> bool:
    return abs(fps - round(fps)) < _RATE_TOLERANCE * fps


def _proposed(source: ImportSource) -> Iterator[tuple[str, list[str]]]:
    columns = {name: each for name, each in source.columns.items() if not _IGNORED.search(name)}
    vectors = [name for name, each in columns.items() if len(each.shape) == 1 and not each.is_text]
    scalars = [name for name, each in columns.items() if not each.shape and not each.is_text]
    cameras = [name for name, each in columns.items() if each.is_image]
    actions = _first_fit([*vectors, *scalars], _ACTIONS) or [
        name for name in (*vectors, *scalars) if re.search(r"(^|/)actions?/", name)
    ]
    observed = [name for name in vectors if name not in actions]
    states = _first_fit(observed, _STATES) or [name for name in observed if "obs" in name]
    if states:
        yield _STATE, states
    environment = [] if cameras else _first_fit(observed, _ENVIRONMENT_STATES)
    if environment and environment != states:
        yield names.ENVIRONMENT_STATE, environment
    yield from _camera_features(cameras)
    if actions:
        yield names.ACTION, actions
    for key, patterns in ((_REWARD, _REWARDS), (DONE, _DONES)):
        found = _first_fit(scalars, patterns)
        if found:
            yield key, found[:1]


def _camera_features(columns: list[str]) -> Iterator[tuple[str, list[str]]]:
    keys = [camera_key(name) for name in columns]
    for name, key in zip(columns, keys, strict=True):
        is_unique = keys.count(key) == 1
        yield key if is_unique else f"{names.OBSERVATION}.images.{name.replace('/', '_')}", [name]


def camera_key(column: str) -> str:
    """The feature of a camera by the last name of its column."""
    leaf = column.rpartition("/")[2]
    name = _CAMERA_SUFFIX.sub("", leaf)
    return f"{names.OBSERVATION}.images.{name}" if name else f"{names.OBSERVATION}.image"


def _first_fit(columns: list[str], patterns: tuple[str, ...]) -> list[str]:
    for pattern in patterns:
        found = [name for name in columns if re.fullmatch(pattern, name.rpartition("/")[2])]
        if found:
            return found
    return []
