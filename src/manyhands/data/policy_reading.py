"""How a dataset is read for a policy: the windows it needs, the observations it does not."""

from dataclasses import replace

from manyhands.config.policies.base import PolicyConfig
from manyhands.data.dataset_selection import TrainDataset
from manyhands.data.read_options import ReadOptions
from manyhands.lerobot_format import names


def part_reading(part: TrainDataset, policy: PolicyConfig, reading: ReadOptions) -> ReadOptions:
    """How one dataset is read for a policy: skips observations it does not use."""
    wanted, features = policy.input_features | policy.output_features, part.meta.info.features
    unread = [
        key
        for key, feature in features.items()
        if reading.delivered(key) not in wanted
        and (feature.is_camera or key.startswith(names.OBSERVATION))
    ]
    known = {key: name for key, name in reading.rename_map.items() if key in features}
    return replace(reading, skip=unread, rename_map=known)


def windows_of(policy: PolicyConfig) -> dict[str, list[int]]:
    """Frame offsets of the policy's windows, by key."""
    windows = dict.fromkeys(policy.output_features, policy.action_offsets)
    if policy.observation_offsets is not None:
        windows |= dict.fromkeys(policy.recorded_features, policy.observation_offsets)
    return windows
