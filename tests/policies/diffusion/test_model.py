"""The tensors of Diffusion Policy: which there are, in which order, and what they are made of."""

import pytest
import torch
from safetensors.torch import load_file

from manyhands.config.policies.diffusion import DiffusionConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.policies.diffusion.model import DiffusionModel


def test_the_default_policy_has_lerobots_size():
    config = DiffusionConfig(
        input_features={
            "observation.images.top": PolicyFeature(FeatureType.VISUAL, (3, 480, 640)),
            "observation.state": PolicyFeature(FeatureType.STATE, (14,)),
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (14,))},
    )
    with torch.device("meta"):
        model = DiffusionModel(config)
    sizes = [parameter.numel() for parameter in model.parameters()]
    assert (sum(sizes), len(sizes), len(model.state_dict())) == (263_440_174, 212, 273)


@pytest.mark.parametrize("name", ["diffusion_ddpm", "diffusion_ddim_sample"])
def test_names_and_shapes_are_lerobots(golden, shared, name):
    saved = load_file(shared / f"fixtures/policies/{name}/pretrained_model/model.safetensors")
    state = DiffusionModel(golden.diffusion_config()).state_dict()
    ours = {f"diffusion.{name}": value.shape for name, value in state.items()}
    assert ours == {name: value.shape for name, value in saved.items()}


def test_parameters_stand_in_lerobots_order(golden):
    with torch.device("meta"):
        names = list(DiffusionModel(golden.diffusion_config(cameras=True)).state_dict())

    def owners(prefix: str) -> list[str]:
        tails = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
        return list(dict.fromkeys(tail.split(".")[0] for tail in tails))

    assert owners("") == ["rgb_encoder", "unet"]
    assert owners("rgb_encoder.") == ["0", "1"]
    assert owners("rgb_encoder.0.") == ["backbone", "pool", "out"]
    assert owners("rgb_encoder.0.pool.") == ["pos_grid", "nets"]
    assert owners("unet.") == [
        "diffusion_step_encoder",
        "down_modules",
        "mid_modules",
        "up_modules",
        "final_conv",
    ]
    assert owners("unet.down_modules.0.") == ["0", "1", "2"]
    assert owners("unet.down_modules.2.") == ["0", "1"]
    assert owners("unet.up_modules.1.") == ["0", "1", "2"]
    assert owners("unet.up_modules.0.0.") == ["conv1", "cond_encoder", "conv2", "residual_conv"]
    assert owners("unet.up_modules.0.1.") == ["conv1", "cond_encoder", "conv2"]


def test_a_shared_encoder_has_no_number(golden):
    config = golden.diffusion_config(cameras=True, use_separate_rgb_encoder_per_camera=False)
    with torch.device("meta"):
        names = DiffusionModel(config).state_dict()
    assert "rgb_encoder.backbone.0.weight" in names and "rgb_encoder.out.bias" in names


def test_what_is_observed_stands_step_by_step(golden):
    config = golden.diffusion_config(cameras=True)
    model, batch = DiffusionModel(config).eval(), golden.batch_of(config)
    with torch.no_grad():
        observed = model._observed(batch, None).view(3, 2, 6 + 16 + 16 + 5)
        for step in range(2):
            state, *cameras, environment = observed[:, step].split([6, 16, 16, 5], dim=-1)
            assert torch.equal(state, batch["observation.state"][:, step])
            assert torch.equal(environment, batch["observation.environment_state"][:, step])
            for number, name in enumerate(("top", "wrist")):
                images = batch[f"observation.images.{name}"][:, step]
                expected = model.rgb_encoder[number](images)
                torch.testing.assert_close(cameras[number], expected)


@pytest.mark.parametrize("changes", [{}, {"crop_shape": (56, 40)}])
def test_a_shared_encoder_sees_each_camera_as_its_own_would(golden, changes):
    config = golden.diffusion_config(cameras=True, **changes)
    shared_config = golden.diffusion_config(
        cameras=True, use_separate_rgb_encoder_per_camera=False, **changes
    )
    separate, together = DiffusionModel(config).eval(), DiffusionModel(shared_config).eval()
    for encoder in separate.rgb_encoder:
        encoder.load_state_dict(together.rgb_encoder.state_dict())
    batch = golden.batch_of(config)
    corners = torch.tensor([[0, 9], [8, 2], [3, 56]])[:, None] if changes else None
    own_corners = corners.expand(-1, 2, -1) if changes else None
    with torch.no_grad():
        torch.testing.assert_close(
            together._observed(batch, corners), separate._observed(batch, own_corners)
        )


def test_all_steps_of_a_sample_are_cropped_alike_and_samples_apart(golden):
    config = golden.diffusion_config(cameras=True, crop_shape=(56, 56))
    model, batch = DiffusionModel(config).eval(), golden.batch_of(config)
    corners = torch.tensor([[[0, 0], [8, 40]], [[4, 20], [1, 1]], [[8, 0], [0, 40]]])
    windows = dict(batch)
    for camera, name in enumerate(("observation.images.top", "observation.images.wrist")):
        windows[name] = torch.stack(
            [
                batch[name][sample, :, :, top : top + 56, left : left + 56]
                for sample, (top, left) in enumerate(corners[:, camera].tolist())
            ]
        )
    with torch.no_grad():
        expected = model._observed(windows, None)
        torch.testing.assert_close(model._observed(batch, corners), expected)
        assert not torch.allclose(model._observed(batch, None), expected)
