"""`--dataset.image_transforms`: LeRobot's block, in flags and in files."""

import json
from dataclasses import replace

import pytest

from manyhands.config.resolve import read_train_config, resolve_config
from manyhands.config.schema.decoding import encode
from manyhands.config.sections.image_transforms import ImageTransformsConfig, TransformConfig
from manyhands.errors import ConfigError

BASE = ["--dataset.root=data", "--policy.type=act"]
FLAG = "--dataset.image_transforms"

LEROBOT_BLOCK = {
    "enable": False,
    "max_num_transforms": 3,
    "random_order": False,
    "tfs": {
        "brightness": {"weight": 1.0, "type": "ColorJitter", "kwargs": {"brightness": [0.8, 1.2]}},
        "contrast": {"weight": 1.0, "type": "ColorJitter", "kwargs": {"contrast": [0.8, 1.2]}},
        "saturation": {"weight": 1.0, "type": "ColorJitter", "kwargs": {"saturation": [0.5, 1.5]}},
        "hue": {"weight": 1.0, "type": "ColorJitter", "kwargs": {"hue": [-0.05, 0.05]}},
        "sharpness": {
            "weight": 1.0,
            "type": "SharpnessJitter",
            "kwargs": {"sharpness": [0.5, 1.5]},
        },
        "affine": {
            "weight": 1.0,
            "type": "RandomAffine",
            "kwargs": {"degrees": [-5.0, 5.0], "translate": [0.05, 0.05]},
        },
    },
}


def block_of(*flags: str) -> ImageTransformsConfig:
    return read_train_config([*BASE, *flags]).dataset.image_transforms


def faults_with(**entries: TransformConfig) -> list[str]:
    return ImageTransformsConfig(enable=True, tfs=entries).faults()


def faults_of(*flags: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        block_of(*flags)
    return caught.value.faults


def test_the_defaults_are_lerobots():
    assert encode(ImageTransformsConfig()) == LEROBOT_BLOCK
    assert ImageTransformsConfig(enable=True).faults() == []


def test_a_block_that_lerobot_wrote_is_read_and_written_alike(tmp_path):
    block = LEROBOT_BLOCK | {"enable": True, "random_order": True}
    file = tmp_path / "train_config.json"
    file.write_text(json.dumps({"dataset": {"root": "data", "image_transforms": block}}))
    read = block_of(f"--config_path={file}")
    assert read.enable and read.random_order
    assert encode(read) == block


def test_flags_set_the_block():
    entries = {"grain": {"weight": 2, "type": "GaussianNoise", "kwargs": {"std": [1, 9]}}}
    read = block_of(
        f"{FLAG}.enable=true",
        f"{FLAG}.max_num_transforms=2",
        f"{FLAG}.random_order=true",
        f"{FLAG}.tfs={json.dumps(entries)}",
    )
    grain = TransformConfig(weight=2.0, type="GaussianNoise", kwargs={"std": [1, 9]})
    assert read == ImageTransformsConfig(
        enable=True, max_num_transforms=2, random_order=True, tfs={"grain": grain}
    )


def test_a_block_made_by_hand_survives_completion():
    config = read_train_config([*BASE, f"{FLAG}.enable=true"])
    assert resolve_config(config) == config


def test_flags_without_effect_are_refused():
    assert faults_of(f"{FLAG}.max_num_transforms=2") == [
        f"{FLAG}.max_num_transforms has no effect without {FLAG}.enable=true"
    ]


def test_single_values_of_an_entry_are_refused():
    (fault,) = faults_of(f"{FLAG}.enable=true", f"{FLAG}.tfs.hue.weight=2")
    assert fault.startswith(f"{FLAG}.tfs must be set at once")


@pytest.mark.parametrize(
    ("tfs", "told"),
    [
        (
            "{a: {weigth: 2}}",
            ".tfs.a.weigth; did you mean --dataset.image_transforms.tfs.a.weight?",
        ),
        ("{a: {weight: x}}", ".tfs.a.weight=x: expects a number"),
        ("{a: 3}", ".tfs.a=3: expects"),
        ("{a: {kwargs: 3}}", ".tfs.a.kwargs=3: expects"),
        ("3", ".tfs=3: expects"),
        ("{a", ".tfs={a: expects"),
    ],
)
def test_an_entry_of_another_shape_is_refused_by_name(tfs, told):
    faults = faults_of(f"{FLAG}.enable=true", f"{FLAG}.tfs={tfs}")
    assert any(told in fault for fault in faults)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (TransformConfig(type="GausianNoise"), "did you mean GaussianNoise?"),
        (TransformConfig(type="RandomCrop"), "choose from Identity, ColorJitter"),
        (TransformConfig(type="JPEGCompression"), "is not supported on the device"),
        (TransformConfig(weight=-1.0), "weight=-1.0 must be at least 0"),
        (TransformConfig(weight=float("nan")), "weight=nan"),
        (TransformConfig(kwargs={"p": 1}), "kwargs.p is not one of Identity: it has none"),
        (TransformConfig(type="MotionBlur", kwargs={"kernelsize": 3}), "did you mean kernel_size?"),
        (TransformConfig(type="MotionBlur", kwargs={"kernel_size": [9, 3]}), "is reversed"),
        (TransformConfig(type="RandomAffine"), "kwargs.degrees is missing"),
        (TransformConfig(type="RandomAffine", kwargs={"degrees": None}), "degrees is missing"),
        (TransformConfig(type="ColorJitter"), "at least one of brightness, contrast"),
    ],
)
def test_each_fault_names_the_entry_and_what_is_wrong(entry, told):
    (fault,) = faults_with(mine=entry)
    assert fault.startswith(f"{FLAG}.tfs: mine.")
    assert told in fault


def test_a_set_that_offers_nothing_is_refused():
    assert faults_with() == faults_with(a=TransformConfig(weight=0.0)) != []
    negative = replace(ImageTransformsConfig(enable=True), max_num_transforms=-1)
    assert "max_num_transforms=-1" in negative.faults()[0]


def test_what_is_off_is_not_checked():
    strange = {"a": TransformConfig(type="JPEGCompression", weight=0.0)}
    assert faults_with(**strange, b=TransformConfig()) == []
    assert ImageTransformsConfig(tfs={"a": TransformConfig(type="Unheard")}).faults() == []


def test_values_are_normal_and_complete():
    moves = TransformConfig(type="RandomAffine", kwargs={"degrees": 3, "scale": None})
    assert moves.values() == {
        "degrees": (-3.0, 3.0),
        "translate": (0.0, 0.0),
        "scale": (1.0, 1.0),
        "shear": (0.0, 0.0, 0.0, 0.0),
        "interpolation": "nearest",
        "fill": 0.0,
    }
