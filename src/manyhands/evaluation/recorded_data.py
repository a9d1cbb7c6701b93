"""The recorded episodes that a policy is compared with: by default those training held out."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from manyhands.config.files.config_files import read_config_file
from manyhands.config.policies.base import PolicyConfig
from manyhands.config.runs.run_dir import TRAIN_CONFIG
from manyhands.config.schema.decoding import Decoder
from manyhands.config.sections.open_loop import EvaluatedDatasetConfig
from manyhands.config.train import DatasetConfig, TrainConfig
from manyhands.data.dataset import Dataset, open_dataset
from manyhands.data.dataset_selection import TrainDataset, find_datasets
from manyhands.data.policy_reading import part_reading, windows_of
from manyhands.data.read_options import ReadOptions
from manyhands.errors import UserError
from manyhands.lerobot_format.dataset.features import Feature
from manyhands.policies.policy import Policy


@dataclass(frozen=True)
class RecordedData:
    """Episodes as a policy reads them."""

    dataset: Dataset
    choice: str
    """Which episodes they are, in words."""


def read_run(folder: Path) -> TrainConfig | None:
    """The data flags of the run that saved a policy folder; None if it does not say."""
    if not (folder / TRAIN_CONFIG).is_file():
        return None
    tree = read_config_file(str(folder))
    dataset = Decoder(TrainConfig).section(DatasetConfig, tree.get("dataset") or {}, "dataset.")
    return TrainConfig(dataset=dataset, rename_map=tree.get("rename_map") or {})


def open_recorded(
    config: EvaluatedDatasetConfig, policy: Policy, run: TrainConfig | None
) -> RecordedData:
    """Open the episodes of the flags with the windows of a policy."""
    part, episodes, choice = choose_episodes(config, run)
    run = run or TrainConfig()
    reading = ReadOptions(
        rename_map=policy.processors.rename_map | run.rename_map,
        image_size=run.dataset.image_size,
        depth_unit=run.dataset.depth_output_unit,
        as_vectors=True,
    )
    reading = part_reading(part, policy.config, reading)
    features = reading.delivered_features(part.meta.info.features)
    refuse_other_features(policy.config, features, part.root)
    windows = windows_of(policy.config)
    wanted = {key: offsets for key, offsets in windows.items() if key in features}
    return RecordedData(open_dataset(None, part.root, episodes.tolist(), wanted, reading), choice)


def choose_episodes(
    config: EvaluatedDatasetConfig, run: TrainConfig | None
) -> tuple[TrainDataset, np.ndarray, str]:
    """The dataset, its chosen episodes, and which they are in words."""
    named = DatasetConfig(
        repo_id=config.repo_id,
        root=config.root,
        revision=config.revision,
        episodes=config.episodes,
    )
    (part,) = find_datasets(named)
    if config.episodes is not None:
        return part, part.training, "as chosen by --dataset.episodes"
    if run is None or not is_dataset_of(run.dataset, part.root, config.repo_id):
        return part, part.training, "all of the dataset"
    trained = replace(run.dataset, repo_id=None, root=part.root, revision=None, mix=None)
    (part,) = find_datasets(trained)
    if not part.uses_all_episodes:
        return part, part.held_out, "held out of training"
    others = np.setdiff1d(np.arange(len(part.meta.episodes)), part.training)
    if others.size:
        return part, others, "those that training did not use"
    return part, part.training, "all of the dataset; the policy was trained on them"


def is_dataset_of(trained: DatasetConfig, root: Path, repo_id: str | None) -> bool:
    """Whether a run was trained on a dataset, by the last name of its folder or on the Hub."""
    # Complete paths differ between machines.
    named = [*(trained.mix or {}), trained.root, trained.repo_id]
    known = {Path(name).name for name in named if name is not None}
    return bool(known & {root.name, Path(repo_id or root).name})


def refuse_other_features(policy: PolicyConfig, features: dict[str, Feature], root: Path) -> None:
    """Reject a dataset that lacks what the policy reads or predicts, or has it in another shape."""
    wanted = policy.recorded_features | policy.output_features
    missing = [
        name for name in wanted if name not in features and not policy.is_optional_input(name)
    ]
    if missing:
        raise UserError(
            f"--dataset: {root} has no {', '.join(missing)}, which the policy reads or predicts. "
            f"It has {', '.join(features)}. Choose a dataset of the same robot"
        )
    for name in (name for name in wanted if name in features):
        feature, expected = features[name], tuple(wanted[name].shape)
        shape = feature.channel_first_shape if feature.is_camera else feature.shape
        if tuple(shape) != expected:
            raise UserError(
                f"--dataset: {name} has shape {tuple(shape)} in {root}, but the policy expects "
                f"{expected}. Choose a dataset of the same robot"
            )
