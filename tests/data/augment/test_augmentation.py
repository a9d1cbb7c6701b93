"""Batches with transformed cameras."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.config.sections.image_transforms import ImageTransformsConfig, TransformConfig
from manyhands.config.sections.transform_types import TRANSFORM_TYPES
from manyhands.data.augment.augmentation import Augmentation, build_augmentation
from manyhands.draws.counter import CounterSource, derive_key
from manyhands.draws.generator import GeneratorSource
from manyhands.errors import ConfigError

TOP, WRIST, DEPTH = (f"observation.images.{name}" for name in ("top", "wrist", "depth"))
CAMERAS = {TOP: (3, 20, 24), WRIST: (3, 16, 12), DEPTH: (1, 20, 24)}
NEEDED = {
    "ColorJitter": {"brightness": 0.4},
    "SharpnessJitter": {"sharpness": [0.0, 0.1]},
    "RandomAffine": {"degrees": [20, 30]},
    "GaussianBlur": {"kernel_size": 5, "sigma": 2.0},
    "PlanckianJitter": {"temperature": [3000, 5000]},
}
ALL_TYPES = {
    kind: TransformConfig(type=kind, kwargs=NEEDED.get(kind, {})) for kind in TRANSFORM_TYPES
}
WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "unique"}


def augmentation(tfs=None, number=3, random_order=False) -> Augmentation:
    config = ImageTransformsConfig(
        enable=True,
        max_num_transforms=number,
        random_order=random_order,
        tfs=ALL_TYPES if tfs is None else tfs,
    )
    assert config.faults() == []
    return Augmentation(config, CAMERAS)


def draws_of(made: Augmentation, num_samples: int, seed: int = 0) -> dict[str, torch.Tensor]:
    return made.draw(CounterSource(derive_key(seed, "augment"), torch.arange(num_samples)))


def batch_of(num_samples: int, frames: tuple[int, ...] = ()) -> dict:
    generator = torch.Generator().manual_seed(1)
    cameras = {
        name: torch.randint(30, 220, (num_samples, *frames, *shape), generator=generator)
        for name, shape in CAMERAS.items()
    }
    rest = {"observation.state": torch.ones(num_samples, 2), "task": ["reach"] * num_samples}
    return {name: images.to(torch.uint8) for name, images in cameras.items()} | rest


@pytest.mark.parametrize("kind", [kind for kind in TRANSFORM_TYPES if kind != "Identity"])
@pytest.mark.parametrize("frames", [(), (2,)])
def test_each_type_changes_every_color_camera_given_as_bytes(kind, frames):
    made, batch = augmentation({"only": ALL_TYPES[kind]}), batch_of(4, frames)
    seen = made(batch, draws_of(made, 4))
    for camera in (TOP, WRIST):
        assert seen[camera].dtype == torch.float32
        assert seen[camera].shape == batch[camera].shape
        changed = (seen[camera] - batch[camera] / 255).abs().amax(dim=(-3, -2, -1))
        assert changed.min() > 0.5 / 255


def test_depth_cameras_and_all_else_stay_as_they_are():
    made, batch = augmentation(), batch_of(4)
    before = dict(batch)
    seen = made(batch, draws_of(made, 4))
    assert made.cameras == [TOP, WRIST]
    assert all(seen[name] is batch[name] for name in (DEPTH, "observation.state", "task"))
    assert list(seen) == list(batch)
    assert all(batch[name] is before[name] for name in before)


@pytest.mark.parametrize("random_order", [False, True])
def test_bytes_and_floats_give_the_same(random_order):
    made, batch = augmentation(random_order=random_order), batch_of(4, (2,))
    draws = draws_of(made, 4)
    floats = batch | {camera: batch[camera] / 255 for camera in (TOP, WRIST)}
    for camera in (TOP, WRIST):
        assert torch.equal(made(batch, draws)[camera], made(floats, draws)[camera])


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
@pytest.mark.parametrize("random_order", [False, True])
def test_a_sample_is_transformed_alike_on_any_rank(num_ranks, random_order):
    made, batch = augmentation(random_order=random_order), batch_of(8)
    draws = draws_of(made, 8)
    whole = made(batch, draws)
    for rank in range(num_ranks):
        own = slice(rank * 8 // num_ranks, (rank + 1) * 8 // num_ranks)
        part = made(
            {name: value[own] for name, value in batch.items()},
            {name: value[own] for name, value in draws.items()},
        )
        for camera in (TOP, WRIST):
            torch.testing.assert_close(part[camera], whole[camera][own])


def test_draws_are_a_function_of_the_key_and_cameras_differ():
    made = augmentation()
    one, same, other = (draws_of(made, 5, seed) for seed in (0, 0, 1))
    assert all(torch.equal(one[camera], same[camera]) for camera in one)
    assert not torch.equal(one[TOP], other[TOP])
    assert not torch.equal(one[TOP], one[WRIST])
    assert {len(value) for value in one.values()} == {5}


def test_frames_share_the_draw_of_their_sample():
    made = augmentation({kind: ALL_TYPES[kind] for kind in ALL_TYPES if kind != "GaussianNoise"})
    still = {name: batch_of(4)[name].unsqueeze(1).expand(-1, 3, -1, -1, -1) for name in CAMERAS}
    seen = made(still, draws_of(made, 4))[TOP]
    torch.testing.assert_close(seen[:, 1:], seen[:, :1].expand(-1, 2, -1, -1, -1))


def doubled(base: float) -> TransformConfig:
    return TransformConfig(type="ColorJitter", kwargs={"brightness": [base, base]})


def test_as_many_transforms_are_applied_as_asked_for_and_no_entry_twice():
    entries = {"two": doubled(2.0), "three": doubled(3.0), "five": doubled(5.0)}
    dim = {camera: torch.full((40, *CAMERAS[camera]), 1 / 64) for camera in (TOP, WRIST)}
    for number, products in ((1, {2, 3, 5}), (2, {6, 10, 15}), (3, {30}), (9, {30})):
        made = augmentation(entries, number)
        gains = made(dim, draws_of(made, 40))[TOP][:, 0, 0, 0] * 64
        assert set(gains.round().int().tolist()) == products


def test_an_entry_of_weight_zero_is_never_drawn():
    never = TransformConfig(weight=0.0, type="ColorJitter", kwargs={"brightness": 1})
    made, batch = augmentation({"never": never, "always": TransformConfig()}), batch_of(4)
    assert torch.equal(made(batch, draws_of(made, 4))[TOP], batch[TOP] / 255)


def test_the_listed_order_is_kept_unless_a_random_one_is_asked_for():
    entries = {
        "full": doubled(1000.0),
        "half": TransformConfig(type="ColorJitter", kwargs={"brightness": [0.5, 0.5]}),
    }
    gray = {camera: torch.full((40, *CAMERAS[camera]), 0.5) for camera in (TOP, WRIST)}
    for random_order, expected in ((False, {0.5}), (True, {0.5, 1.0})):
        made = augmentation(entries, 2, random_order)
        assert set(made(gray, draws_of(made, 40))[TOP].flatten().tolist()) == expected


class OperationNames(TorchDispatchMode):
    """Notes what is asked of the device."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(function.overloadpacket.__name__)
        if self.names[-1] == "index":
            assert all(each is None or each.dtype != torch.bool for each in args[1])
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("random_order", [False, True])
def test_nothing_waits_for_the_device(random_order):
    made, batch = augmentation(random_order=random_order), batch_of(2)
    draws = draws_of(made, 2)
    with OperationNames() as asked:
        made(batch, draws)
    assert len(asked.names) > 100
    assert not WAITING & set(asked.names)


def test_what_is_computed_does_not_depend_on_what_was_drawn():
    made, batch = augmentation(), batch_of(2)
    names = []
    for seed in range(3):
        with OperationNames() as asked:
            made(batch, draws_of(made, 2, seed))
        names.append(asked.names)
    assert names[0] == names[1] == names[2]


def features(**shapes: tuple[int, ...]) -> dict[str, PolicyFeature]:
    visual = {name: PolicyFeature(FeatureType.VISUAL, shape) for name, shape in shapes.items()}
    return visual | {"state": PolicyFeature(FeatureType.STATE, (3,))}


def test_only_the_cameras_among_the_inputs_are_transformed():
    made = build_augmentation(
        ImageTransformsConfig(enable=True), features(a=(3, 8, 8), b=(1, 8, 8))
    )
    assert isinstance(made, Augmentation)
    assert made.cameras == ["a"]


@pytest.mark.parametrize("inputs", [{}, {"depth": (1, 8, 8)}])
def test_an_augmentation_of_nothing_is_refused(inputs):
    with pytest.raises(ConfigError, match="color camera"):
        build_augmentation(ImageTransformsConfig(enable=True), features(**inputs))


@pytest.mark.parametrize("off", [{"enable": False}, {"enable": True, "max_num_transforms": 0}])
def test_batches_pass_untouched_where_nothing_is_to_be_done(off):
    made = build_augmentation(ImageTransformsConfig(**off), features(a=(3, 8, 8)))
    assert made.cameras == []
    batch = {"a": torch.zeros(1)}
    assert made.draw(GeneratorSource(4)) == {}
    assert made(batch, {}) is batch
