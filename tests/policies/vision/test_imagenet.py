"""Where pretrained weights of backbones come from."""

import hashlib
from urllib.error import URLError

import pytest
import torch
from safetensors.torch import save_file

from manyhands.errors import UserError, WeightsUnavailable
from manyhands.policies.vision.imagenet import PRETRAINED_FILES, load_backbone_file, load_imagenet
from manyhands.policies.vision.norms import BatchNorm
from manyhands.policies.vision.resnet import POSITIONAL, ResNet

WEIGHTS = "ResNet18_Weights.IMAGENET1K_V1"
CLASSIFIER = {"fc.weight": torch.ones(2, 512), "fc.bias": torch.ones(2)}


def random_weights(counted: bool = True) -> dict[str, torch.Tensor]:
    """What torchvision would have saved of a resnet18: its norms count their batches."""
    with torch.device("meta"):
        state = ResNet("resnet18", BatchNorm).state_dict()
    return {
        name: torch.randint(1, 9, ()) if value.ndim == 0 else torch.rand(value.shape)
        for name, value in state.items()
        if counted or not name.endswith("num_batches_tracked")
    }


def without_values(name: str = "resnet18") -> ResNet:
    """A backbone for weights that are refused before they are needed."""
    with torch.device("meta"):
        return ResNet(name)


def diffusion_backbone() -> ResNet:
    return ResNet("resnet18", BatchNorm, POSITIONAL)


def torchvisions_names(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors of a positional backbone under their published names."""
    names = dict(
        zip(POSITIONAL, ("conv1", "bn1", "layer1", "layer2", "layer3", "layer4"), strict=True)
    )
    parts = {key: key.partition(".") for key in state}
    return {names[part] + dot + rest: state[key] for key, (part, dot, rest) in parts.items()}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of published weights, and no network."""

    def unreachable(url, *_args, **_kwargs):
        raise URLError(f"no route to {url}")

    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", unreachable)
    (tmp_path / "checkpoints").mkdir()
    return tmp_path / "checkpoints"


@pytest.fixture
def publish(cache, monkeypatch):
    """Puts weights into the cache as if PyTorch had published them."""

    def put(weights):
        torch.save(weights, cache / "new.pth")
        digest = hashlib.sha256((cache / "new.pth").read_bytes()).hexdigest()
        name = f"resnet18-{digest[:8]}.pth"
        monkeypatch.setitem(PRETRAINED_FILES, WEIGHTS, name)
        return (cache / "new.pth").rename(cache / name)

    return put


@pytest.mark.parametrize("counted", [True, False])
def test_published_weights_are_taken_from_the_cache(publish, counted):
    published = random_weights(counted)
    publish(published | CLASSIFIER)
    frozen, trained = ResNet("resnet18"), diffusion_backbone()
    load_imagenet([frozen, trained], "resnet18", WEIGHTS)
    for name, value in frozen.state_dict().items():
        assert torch.equal(value, published[name]), name
    for name, value in torchvisions_names(trained.state_dict()).items():
        assert torch.equal(value, published.get(name, torch.tensor(0))), name


def test_a_cached_file_of_another_content_is_named(publish):
    path = publish(random_weights())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=rf"{path.name} is damaged: its SHA-256.*Delete it"):
        load_imagenet([without_values()], "resnet18", WEIGHTS)


@pytest.mark.parametrize("content", [b"", b"no weights", b"PK\x03\x04"])
def test_a_damaged_cache_is_named(cache, content):
    (cache / PRETRAINED_FILES[WEIGHTS]).write_bytes(content)
    with pytest.raises(UserError, match=r"resnet18-f37072fd\.pth is damaged"):
        load_imagenet([without_values()], "resnet18", WEIGHTS)


def test_without_cache_and_network_the_user_learns_what_to_do(cache):
    with pytest.raises(WeightsUnavailable) as caught:
        load_imagenet([without_values()], "resnet18", WEIGHTS)
    told = str(caught.value)
    assert f"put the file into {cache}" in told
    assert "--policy.backbone_weights=resnet18-f37072fd.pth" in told
    assert "--policy.pretrained_backbone_weights=null" in told


def test_a_download_of_another_content_is_refused(cache, monkeypatch):
    def damaged(url, path, digest, progress):
        raise RuntimeError('invalid hash value (expected "f37072fd", got "0")')

    monkeypatch.setattr(torch.hub, "download_url_to_file", damaged)
    with pytest.raises(WeightsUnavailable, match="invalid hash value"):
        load_imagenet([without_values()], "resnet18", WEIGHTS)
    assert list(cache.iterdir()) == []


def test_weights_of_another_depth_are_refused_with_those_that_fit():
    with pytest.raises(UserError, match=r"does not match.*ResNet50_Weights\.IMAGENET1K_V2"):
        load_imagenet([without_values("resnet50")], "resnet50", WEIGHTS)


def test_every_depth_has_published_weights():
    assert {name.split("_")[0].lower() for name in PRETRAINED_FILES} == {
        "resnet18",
        "resnet34",
        "resnet50",
        "resnet101",
        "resnet152",
    }


@pytest.mark.parametrize("name", ["resnet18.safetensors", "resnet18-f37072fd.pth"])
def test_a_file_of_weights_fills_every_kind_of_backbone(tmp_path, name):
    weights = random_weights()
    (save_file if name.endswith("safetensors") else torch.save)(
        weights | CLASSIFIER, tmp_path / name
    )
    frozen, trained = ResNet("resnet18"), diffusion_backbone()
    load_backbone_file([frozen, trained], tmp_path / name)
    for key, value in frozen.state_dict().items():
        assert torch.equal(value, weights[key]), key
    for key, value in torchvisions_names(trained.state_dict()).items():
        assert torch.equal(value, weights[key]), key


@pytest.mark.parametrize("build", [lambda: ResNet("resnet18"), diffusion_backbone])
def test_what_does_not_fit_in_a_file_is_listed_by_its_published_name(tmp_path, build):
    backbone = build()
    weights = random_weights() | {"head.weight": torch.ones(1), "bn1.bias": torch.ones(3)}
    del weights["layer3.0.conv1.weight"]
    save_file(weights, tmp_path / "w.safetensors")
    before = {name: value.clone() for name, value in backbone.state_dict().items()}
    with pytest.raises(UserError) as caught:
        load_backbone_file([backbone], tmp_path / "w.safetensors")
    told = str(caught.value)
    assert "--policy.backbone_weights=" in told
    assert "1 missing: layer3.0.conv1.weight" in told
    assert "1 unexpected: head.weight" in told
    assert "1 of another shape: bn1.bias (3 in the file, 64 in the policy)" in told
    assert all(torch.equal(before[name], value) for name, value in backbone.state_dict().items())


class Trap:
    """Runs code where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_code_in_a_file_is_refused_and_never_run(tmp_path):
    torch.save(random_weights() | {"conv1.weight": Trap(tmp_path / "run")}, tmp_path / "w.pth")
    with pytest.raises(UserError, match="pickled code is never run"):
        load_backbone_file([without_values()], tmp_path / "w.pth")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [("w.pth", b""), ("w.pth", b"PK\x03\x04"), ("w.pth", b"no"), ("w.safetensors", b"no weights")],
)
def test_a_damaged_file_is_named(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=rf"{name} is damaged"):
        load_backbone_file([without_values()], tmp_path / name)


def test_a_file_of_other_things_than_tensors_is_refused(tmp_path):
    torch.save({"state_dict": random_weights()}, tmp_path / "w.pth")
    with pytest.raises(UserError, match="contains no named tensors"):
        load_backbone_file([without_values()], tmp_path / "w.pth")
    with pytest.raises(UserError, match=r"--policy\.backbone_weights=.*none\.pth is not a file"):
        load_backbone_file([without_values()], tmp_path / "none.pth")
