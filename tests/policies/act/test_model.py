"""The tensors of ACT: which there are, in which order, how they start, and what they accept."""

import math

import pytest
import torch

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.features import FeatureType, PolicyFeature
from manyhands.policies.act.model import ActModel

VISUAL = FeatureType.VISUAL


def defaults(**changes):
    features = {
        "observation.images.top": PolicyFeature(VISUAL, (3, 480, 640)),
        "observation.state": PolicyFeature(FeatureType.STATE, (14,)),
    }
    action = {"action": PolicyFeature(FeatureType.ACTION, (14,))}
    return ActConfig(input_features=features, output_features=action, **changes)


def test_the_default_policy_has_lerobots_size():
    with torch.device("meta"):
        model = ActModel(defaults())
    sizes = [parameter.numel() for parameter in model.parameters()]
    assert (sum(sizes), len(sizes), len(model.state_dict())) == (51_613_582, 153, 234)


def test_parameters_stand_in_lerobots_order(golden):
    model = ActModel(golden.act_config(cameras=True))
    owners = list(dict.fromkeys(name.split(".")[0] for name in model.state_dict()))
    assert owners == [
        "vae_encoder_pos_enc",
        "vae_encoder",
        "vae_encoder_cls_embed",
        "vae_encoder_robot_state_input_proj",
        "vae_encoder_action_input_proj",
        "vae_encoder_latent_output_proj",
        "backbone",
        "encoder",
        "decoder",
        "encoder_robot_state_input_proj",
        "encoder_env_state_input_proj",
        "encoder_latent_input_proj",
        "encoder_img_feat_input_proj",
        "encoder_1d_feature_pos_embed",
        "decoder_pos_embed",
        "action_head",
    ]


def test_a_decoder_layer_holds_its_attentions_first(golden):
    layer = ActModel(golden.act_config()).decoder.layers[0]
    owners = list(dict.fromkeys(name.split(".")[0] for name in layer.state_dict()))
    norms = ["norm1", "norm2", "norm3"]
    assert owners == ["self_attn", "multihead_attn", "linear1", "linear2", *norms]


@pytest.mark.parametrize("pre_norm", [True, False])
def test_stacks_end_in_a_norm_only_where_lerobots_do(golden, pre_norm):
    names = ActModel(golden.act_config(pre_norm=pre_norm)).state_dict()
    assert ("encoder.norm.weight" in names) == pre_norm
    assert ("vae_encoder.norm.weight" in names) == pre_norm
    assert "decoder.norm.weight" in names


def test_weights_start_as_lerobots():
    torch.manual_seed(0)
    model = ActModel(defaults(dim_model=64, n_heads=4, dim_feedforward=128))

    def bound_of(weight):
        return weight.abs().max().item()

    def xavier(weight):
        return math.sqrt(6 / sum(weight.shape))

    def default(weight):
        return 1 / math.sqrt(weight.shape[1])

    encoder, vae = model.encoder.layers[0], model.vae_encoder.layers[0]
    for weight in (
        encoder.self_attn.in_proj_weight,
        encoder.linear1.weight,
        vae.self_attn.in_proj_weight,
    ):
        assert bound_of(weight) == pytest.approx(xavier(weight), rel=0.01)
    for weight in (vae.linear1.weight, vae.self_attn.out_proj.weight, model.action_head.weight):
        assert bound_of(weight) == pytest.approx(default(weight), rel=0.01)
    for layer in (encoder, vae):
        assert (
            bound_of(layer.self_attn.in_proj_bias) == bound_of(layer.self_attn.out_proj.bias) == 0
        )
    assert model.decoder_pos_embed.weight.std().item() == pytest.approx(1, rel=0.05)


def test_cameras_may_differ_in_size_and_keep_their_order(golden):
    cameras = {
        "observation.images.a": PolicyFeature(VISUAL, (3, 32, 64)),
        "observation.images.b": PolicyFeature(VISUAL, (3, 48, 33)),
        "observation.images.c": PolicyFeature(VISUAL, (3, 32, 64)),
    }
    config = golden.act_config(input_features={**cameras, **golden.vectors}, use_vae=False)
    model, batch = ActModel(config).eval(), golden.batch_of(config)
    with torch.no_grad():
        together = model._camera_tokens([batch[name] for name in cameras])
        alone = [model._camera_tokens([batch[name]])[0] for name in cameras]
        assert model(batch).shape == (3, 8, 4)
    assert [tokens.shape[1] for tokens in together] == [2, 4, 2]
    assert model.camera_positions.shape == (8, 32)
    torch.testing.assert_close(together, alone)


def test_the_order_of_cameras_does_not_matter(golden):
    config = golden.act_config(cameras=True, use_vae=False)
    model, batch = ActModel(config).eval(), golden.batch_of(config)
    swapped = dict(batch)
    top, wrist = "observation.images.top", "observation.images.wrist"
    swapped[top], swapped[wrist] = batch[wrist], batch[top]
    with torch.no_grad():
        torch.testing.assert_close(model(batch), model(swapped), rtol=0, atol=1e-5)
