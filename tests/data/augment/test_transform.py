"""What holds for every type of transform."""

from dataclasses import fields

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manyhands.config.sections.image_transforms import TransformConfig
from manyhands.config.sections.transform_types import TRANSFORM_TYPES
from manyhands.data.augment.augmentation import CLASSES, build_transform

KWARGS = {
    "ColorJitter": {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1},
    "SharpnessJitter": {"sharpness": [0.0, 3.0]},
    "RandomAffine": {"degrees": 20, "translate": [0.2, 0.2], "scale": [0.8, 1.2], "shear": 5},
    "GaussianBlur": {"kernel_size": 5, "sigma": [1.0, 2.0]},
    "GammaCorrection": {"gamma": [1.2, 2.0]},
    "PlanckianJitter": {"temperature": [3000, 5000]},
}
"""Kwargs where a type needs some, or may draw next to nothing; all others have defaults."""

NEUTRAL = {
    "Identity": {},
    "ColorJitter": {"brightness": 0, "contrast": 0, "saturation": 0, "hue": 0},
    "SharpnessJitter": {"sharpness": 0},
    "RandomAffine": {"degrees": 0},
    "GaussianBlur": {"kernel_size": 5, "sigma": 0.01},
    "GaussianNoise": {"std": 0},
    "MotionBlur": {"kernel_size": 1},
    "GammaCorrection": {"gamma": 1},
    "GaussianPatchBrightness": {"factor_range": [1, 1]},
    "RandomShadow": {"opacity": 0},
    "PlanckianJitter": {"temperature": 6500},
}
"""Kwargs at which a type leaves pictures as they are; a hole cannot be without effect."""

CHANGING = [kind for kind in TRANSFORM_TYPES if kind != "Identity"]


def transform(kind, kwargs=None):
    config = TransformConfig(type=kind, kwargs=KWARGS.get(kind, {}) if kwargs is None else kwargs)
    assert list(config.faults()) == []
    return build_transform(config)


def uniforms_for(made, num_samples, seed=0):
    return torch.rand(num_samples, made.num_uniforms, generator=torch.Generator().manual_seed(seed))


def test_each_type_has_a_class_with_its_kwargs():
    assert set(CLASSES) == set(TRANSFORM_TYPES)
    for kind, kwargs in TRANSFORM_TYPES.items():
        assert [item.name for item in fields(transform(kind, KWARGS.get(kind)))] == list(kwargs)


@pytest.mark.parametrize("kind", sorted(set(TRANSFORM_TYPES) - {"CoarseDropout"}))
def test_neutral_kwargs_leave_pictures_as_they_are(pictures, kind):
    made = transform(kind, NEUTRAL[kind])
    seen = made(pictures, uniforms_for(made, len(pictures)))
    torch.testing.assert_close(seen, pictures, atol=2e-6, rtol=0)


@pytest.mark.parametrize("kind", CHANGING)
def test_every_sample_and_frame_changes_and_the_original_does_not(pictures, kind):
    made, before = transform(kind), pictures.clone()
    seen = made(pictures, uniforms_for(made, len(pictures)))
    changed = (seen - pictures).abs().amax(dim=(-3, -2, -1))
    assert changed.min() > 0.5 / 255
    assert torch.equal(pictures, before)


@pytest.mark.parametrize("kind", CHANGING)
def test_a_sample_is_transformed_alike_in_any_batch(pictures, kind):
    made = transform(kind)
    uniforms = uniforms_for(made, len(pictures))
    alone = [made(pictures[each][None], uniforms[each][None]) for each in range(len(pictures))]
    torch.testing.assert_close(made(pictures, uniforms), torch.cat(alone))


@pytest.mark.parametrize("kind", sorted(set(CHANGING) - {"GaussianNoise"}))
def test_equal_frames_of_a_sample_stay_equal(pictures, kind):
    made, still = transform(kind), pictures[:, :1].expand(-1, 3, -1, -1, -1)
    first, *others = made(still, uniforms_for(made, len(pictures))).unbind(1)
    for other in others:
        torch.testing.assert_close(other, first)


STRONG = {
    "ColorJitter": {"brightness": 9, "contrast": 9, "saturation": 9, "hue": 0.5},
    "SharpnessJitter": {"sharpness": 20},
    "RandomAffine": {"degrees": 180, "translate": [1, 1], "scale": [0.01, 9], "shear": 80},
    "GaussianBlur": {"kernel_size": 9, "sigma": [0.01, 50]},
    "GaussianNoise": {"std": 255},
    "MotionBlur": {"kernel_size": [1, 21]},
    "GammaCorrection": {"gamma": 50},
    "CoarseDropout": {"max_height_frac": 1, "max_width_frac": 1, "fill_value": 0.5},
    "GaussianPatchBrightness": {"sigma_range": [0.001, 9], "factor_range": [0, 50]},
    "RandomShadow": {"opacity": [0, 1]},
}
EDGES = st.sampled_from([0.0, 0.5, 1 - 2**-24])


@pytest.mark.parametrize("kind", CHANGING)
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32), level=st.sampled_from([0.0, 0.5, 1.0]) | st.none(), edge=EDGES)
def test_values_stay_finite_and_from_0_to_1(kind, seed, level, edge):
    made = transform(kind, STRONG.get(kind))
    generator = torch.Generator().manual_seed(seed)
    pictures = torch.rand(3, 1, 3, 6, 7, generator=generator)
    if level is not None:
        pictures = torch.full_like(pictures, level)
    uniforms = uniforms_for(made, 3, seed)
    uniforms[0] = edge
    seen = made(pictures, uniforms)
    assert seen.isfinite().all()
    assert seen.min() >= 0
    assert seen.max() <= 1
