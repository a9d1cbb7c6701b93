"""Normalization by its definition, both ways, in every mode."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from manyhands.config.policies.features import FeatureType, NormalizationMode, PolicyFeature
from manyhands.errors import UserError
from manyhands.lerobot_format.policy.processors import NormalizerStep
from manyhands.policies.normalize import STATISTICS, Normalizer, affine_maps

STATE, IMAGE, ENV = "observation.state", "observation.image", "observation.environment_state"
MODES = list(NormalizationMode)
SCALING_MODES = [mode for mode in MODES if mode is not NormalizationMode.IDENTITY]
EPS = 1e-8
CPU = torch.device("cpu")

values = arrays(np.float32, 4, elements=st.floats(-100, 100, width=32))
widths = arrays(np.float32, 4, elements=st.floats(0.125, 100, width=32))


def normalizer(mode, first, second, name=STATE, type=FeatureType.STATE, **changes):
    keys = STATISTICS[mode] or ("mean", "std")
    stats = {name: dict(zip(keys, (np.asarray(first), np.asarray(second)), strict=True))}
    features = {name: PolicyFeature(type, (len(np.atleast_1d(first)),))}
    return Normalizer(NormalizerStep(features, {type.value: mode}, stats, **changes))


def by_definition(mode, x, first, second, eps=EPS):
    x, first, second = (np.asarray(part, np.float64) for part in (x, first, second))
    if mode is NormalizationMode.IDENTITY:
        return x
    if mode is NormalizationMode.MEAN_STD:
        return (x - first) / (second + eps)
    width = np.where(second == first, eps, second - first)
    return 2 * (x - first) / width - 1


@given(mode=st.sampled_from(MODES), x=values, first=values, width=widths)
def test_forward_is_the_definition_and_inverse_undoes_it(mode, x, first, width):
    second = width if mode is NormalizationMode.MEAN_STD else first + width
    module = normalizer(mode, first, second)
    batch = {STATE: torch.from_numpy(np.stack([x, x]))}
    normalized = module.forward(batch)[STATE]
    expected = by_definition(mode, x, first, second)
    np.testing.assert_allclose(normalized[0].numpy(), expected, rtol=1e-5, atol=1e-6)
    restored = module.inverse(STATE, normalized)
    torch.testing.assert_close(restored, batch[STATE], rtol=1e-5, atol=1e-4)


def undone_by_definition(mode, x, first, second, eps):
    x, first, second = (np.asarray(part, np.float64) for part in (x, first, second))
    if mode is NormalizationMode.MEAN_STD:
        return x * second + first
    width = np.where(second == first, eps, second - first)
    return (x + 1) / 2 * width + first


SHAPES = {
    (5, 4): (4,),
    (5, 3, 4): (4,),
    (2, 8, 4): (4,),
    (2, 3, 5, 6): (3,),
    (2, 2, 3, 5, 6): (3, 1, 1),
    (2, 3, 4): (),
}
"""Values as batches have them, and the statistics that belong to them."""


@given(
    mode=st.sampled_from(SCALING_MODES),
    shape=st.sampled_from(list(SHAPES)),
    eps=st.sampled_from([1e-8, 1e-6, 1e-3]),
    is_constant=arrays(bool, 4),
    seed=st.integers(0, 99),
)
def test_every_shape_is_scaled_by_the_formulas(mode, shape, eps, is_constant, seed):
    random = np.random.default_rng(seed)
    size = SHAPES[shape]
    first, width = (random.uniform(low, 3, size).astype("f4") for low in (-3, 0.1))
    width = np.where(is_constant[: size[0] if size else 1].reshape(size), 0, width)
    second = (width if mode is NormalizationMode.MEAN_STD else first + width).astype("f4")
    is_image = len(shape) > 3
    kind = FeatureType.VISUAL if is_image else FeatureType.STATE
    module = normalizer(mode, first, second, "x", kind, eps=eps)
    on_axis = (each.reshape(-1, 1, 1) if is_image else each for each in (first, second))
    first, second = on_axis
    values = random.uniform(-5, 5, shape).astype("f4")
    forward = module.forward({"x": torch.from_numpy(values)})["x"]
    expected = by_definition(mode, values, first, second, eps)
    np.testing.assert_allclose(forward.numpy(), expected, rtol=1e-5, atol=1e-5)
    inverse = module.inverse("x", torch.from_numpy(values))
    expected = undone_by_definition(mode, values, first, second, eps)
    np.testing.assert_allclose(inverse.numpy(), expected, rtol=1e-5, atol=1e-5)


@given(mode=st.sampled_from(MODES), seed=st.integers(0, 99), eps=st.sampled_from([1e-8, 1e-3]))
def test_bytes_of_videos_are_scaled_by_the_formulas(mode, seed, eps):
    random = np.random.default_rng(seed)
    first = random.uniform(0, 0.5, 3).astype("f4")
    second = (first + random.uniform(0.1, 0.5, 3)).astype("f4")
    module = normalizer(mode, first, second, IMAGE, FeatureType.VISUAL, eps=eps)
    pixels = random.integers(0, 256, (2, 2, 3, 5, 4), np.uint8)
    forward = module.forward({IMAGE: torch.from_numpy(pixels)})[IMAGE]
    on_axis = (each.reshape(3, 1, 1) for each in (first, second))
    expected = by_definition(mode, pixels / 255, *on_axis, eps)
    np.testing.assert_allclose(forward.numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", SCALING_MODES)
def test_a_constant_feature_maps_to_one_value_and_back(mode):
    second = [0.0] if mode is NormalizationMode.MEAN_STD else [3.0]
    module = normalizer(mode, [3.0], second)
    normalized = module.forward({STATE: torch.tensor([[3.0]])})[STATE]
    assert normalized.item() == (0 if mode is NormalizationMode.MEAN_STD else -1)
    assert module.inverse(STATE, normalized).item() == 3


def test_a_feature_far_from_zero_keeps_its_digits():
    module = normalizer(NormalizationMode.MEAN_STD, [1000.0], [0.01])
    normalized = module.forward({STATE: torch.tensor([[1000.0078125]])})[STATE]
    assert normalized.item() == pytest.approx(0.78125, rel=1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(3,), (3, 1, 1), ()])
def test_bytes_and_floats_of_an_image_give_the_same(mode, shape):
    first, second = np.full(shape, 0.4), np.full(shape, 0.7)
    module = normalizer(mode, first, second, IMAGE, FeatureType.VISUAL)
    pixels = torch.randint(0, 256, (2, 3, 5, 4), dtype=torch.uint8)
    from_bytes = module.forward({IMAGE: pixels})[IMAGE]
    from_floats = module.forward({IMAGE: pixels / 255})[IMAGE]
    expected = by_definition(mode, pixels.numpy() / 255, 0.4, 0.7)
    assert from_bytes.dtype == torch.float32
    np.testing.assert_allclose(from_bytes.numpy(), expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(from_bytes, from_floats, rtol=0, atol=1e-6)


def test_statistics_of_channels_apply_to_channels():
    mean, std = np.array([0.1, 0.2, 0.3]), np.array([1.0, 2.0, 4.0])
    module = normalizer(NormalizationMode.MEAN_STD, mean, std, IMAGE, FeatureType.VISUAL)
    image = module.forward({IMAGE: torch.zeros(1, 2, 3, 2, 2)})[IMAGE]
    torch.testing.assert_close(image[0, 1, :, 1, 1], torch.tensor([-0.1, -0.1, -0.075]))


def test_kinds_without_a_mode_stay_raw():
    features = {ENV: PolicyFeature(FeatureType.ENV, (1,))}
    stats = {ENV: {"mean": np.array([5.0]), "std": np.array([2.0])}}
    module = Normalizer(NormalizerStep(features, {"STATE": NormalizationMode.MEAN_STD}, stats))
    assert module.forward({ENV: torch.tensor([[7.0]])})[ENV].item() == 7


def test_features_without_statistics_stay_raw():
    features = {STATE: PolicyFeature(FeatureType.STATE, (1,))}
    module = Normalizer(NormalizerStep(features, {"STATE": NormalizationMode.MEAN_STD}, {}))
    assert module.forward({STATE: torch.tensor([[7.0]])})[STATE].item() == 7
    assert module.inverse(STATE, torch.tensor([7.0])).item() == 7


def test_observations_outside_the_given_list_stay_raw():
    module = normalizer(NormalizationMode.MEAN_STD, [5.0], [2.0], observation_keys=[IMAGE])
    assert module.forward({STATE: torch.tensor([[7.0]])})[STATE].item() == 7


def test_unknown_values_pass_and_the_batch_given_is_untouched():
    module = normalizer(NormalizationMode.MEAN_STD, [5.0], [2.0])
    batch = {STATE: torch.tensor([[7.0]]), "task": ["push"]}
    assert module.forward(batch)["task"] == ["push"]
    assert batch[STATE].item() == 7


@pytest.mark.parametrize("mode", SCALING_MODES)
def test_a_missing_statistic_is_named_with_its_feature(mode):
    lacking = STATISTICS[mode][1]
    features = {STATE: PolicyFeature(FeatureType.STATE, (1,))}
    stats = {STATE: {STATISTICS[mode][0]: np.array([1.0])}}
    with pytest.raises(UserError, match=rf"observation\.state has no statistic {lacking}"):
        Normalizer(NormalizerStep(features, {"STATE": mode}, stats))


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.uint8])
def test_every_number_becomes_float32(dtype):
    module = normalizer(NormalizationMode.MEAN_STD, [5.0], [2.0])
    normalized = module.forward({STATE: torch.tensor([[7]], dtype=dtype)})[STATE]
    assert normalized.dtype == torch.float32
    assert normalized.item() == 1


def test_statistics_count_in_the_precision_of_files():
    exact = {"mean": np.array([0.1, 1e8 + 1]), "std": np.array([1 / 3, 7e-9])}
    kept = {key: value.astype(np.float32) for key, value in exact.items()}
    features = {"x": PolicyFeature(FeatureType.STATE, (2,))}
    modes = {"STATE": NormalizationMode.MEAN_STD}
    one, other = (
        affine_maps(NormalizerStep(features, modes, {"x": each}))["x"] for each in (exact, kept)
    )
    assert all(torch.equal(first, second) for first, second in zip(one, other, strict=True))


def test_numbers_have_the_type_that_was_asked_for():
    scaled = normalizer(NormalizationMode.MEAN_STD, [0.1], [0.3]).to(CPU, torch.float64)
    (value,) = scaled.forward({STATE: torch.tensor([1.0])})[STATE]
    # Files keep statistics in single precision.
    first, second = np.float32([0.1, 0.3]).astype(np.float64)
    assert value.item() == pytest.approx((1.0 - first) / (second + EPS), rel=1e-15)
    assert scaled.inverse(STATE, value[None]).item() == pytest.approx(1.0, rel=1e-7)
    raw = normalizer(NormalizationMode.IDENTITY, [0.0] * 3, [1.0] * 3, IMAGE, FeatureType.VISUAL)
    bytes_of_gray = torch.full((1, 3, 2, 2), 51, dtype=torch.uint8)
    image = raw.to(CPU, torch.float64).forward({IMAGE: bytes_of_gray})[IMAGE]
    assert torch.equal(image, torch.full((1, 3, 2, 2), 0.2, dtype=torch.float64))
