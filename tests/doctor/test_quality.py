"""The quality of episodes as doctor reports it."""

import shutil

import pytest
from rich.console import Console

from manyhands.config.commands.doctor import CheckedDatasetConfig, DoctorConfig
from manyhands.data.quality.dataset_quality import DatasetQuality
from manyhands.data.quality.episode_quality import EpisodeQuality, Fault, QualityFinding
from manyhands.doctor.dataset import examine
from manyhands.doctor.quality import MAX_SHOWN, examine_quality, quality_lines, quality_table
from manyhands.errors import DatasetError


def record(episode, *findings):
    names = ("jerk", "jerk_peak", "ending_speed", "nearest_episode", "nearest_distance")
    return EpisodeQuality(
        episode=episode,
        num_frames=30,
        duration_s=3.0,
        idle_share=0.0,
        longest_idle_s=0.0,
        findings=findings,
        **dict.fromkeys(names),
    )


def printed(quality):
    console = Console(width=120, record=True)
    console.print(quality_table(quality))
    return console.export_text()


def test_episodes_worth_excluding_come_first_with_a_flag_to_paste():
    note = QualityFinding(Fault.IDLE, "no motion for 4.0 s", 4.0, is_worth_excluding=False)
    fault = QualityFinding(Fault.JERK, "action[x] trembles", 5.0)
    quality = DatasetQuality("data", (record(0), record(2, note), record(5, fault)), 1.5)
    text = printed(quality)
    assert text.index("jerk: action[x] trembles") < text.index("idle: no motion for 4.0 s")
    first, last = quality_lines(quality)
    assert first == "quality: judged 3 episodes in 1.5 s, 2 with findings"
    assert last == "exclude 1 episode when training: --dataset.exclude_episodes=[5]"
    assert quality_lines(DatasetQuality("data", (record(0),), 1.0)) == [
        "quality: judged 1 episode in 1.0 s, none with findings"
    ]


def test_a_long_table_is_cut():
    fault = QualityFinding(Fault.JERK, "action[x] trembles", 5.0)
    many = tuple(record(number, fault) for number in range(MAX_SHOWN + 3))
    assert "and 3 episodes more" in printed(DatasetQuality("data", many, 1.0))


@pytest.fixture
def config(tiny_dataset, tmp_path):
    root = shutil.copytree(tiny_dataset, tmp_path / "dataset")
    return DoctorConfig(dataset=CheckedDatasetConfig(root=root), num_workers=0)


def test_unreadable_episodes_are_not_judged(config):
    result = examine(config)
    assert len(examine_quality(config, result).episodes) == 4
    file = config.dataset.root / "data/chunk-000/file-000.parquet"
    file.write_bytes(file.read_bytes()[:1000])
    assert isinstance(examine_quality(config, examine(config)), DatasetError)


def test_some_episodes_are_judged(config, tiny_dataset):
    dataset = CheckedDatasetConfig(root=tiny_dataset, episodes=[1, 3])
    some = DoctorConfig(dataset=dataset, num_workers=0)
    quality = examine_quality(some, examine(some))
    assert [each.episode for each in quality.episodes] == [1, 3]
