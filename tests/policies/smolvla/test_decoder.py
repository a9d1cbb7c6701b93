"""What is observed and what is done, side by side."""

import pytest
import torch

from manyhands.errors import ConfigError
from manyhands.policies.smolvla.attention import (
    EagerAttention,
    Heads,
    join_heads,
    rms_norm,
    rotary_embedding,
)
from manyhands.policies.smolvla.decoder import Prefix, vlm_layers
from manyhands.policies.smolvla.layers import _heads, _queries

CHANGES = [
    {},
    {"self_attn_every_n_layers": 0},
    {"self_attn_every_n_layers": 3},
    {"attention_mode": "self_attn"},
    {"attention_mode": "self_attn", "num_expert_layers": 2},
]
attention = EagerAttention()


def prefix_of(num_tokens: int = 6) -> Prefix:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randn(2, num_tokens, 48, generator=generator)
    is_valid = torch.ones(2, num_tokens, dtype=torch.bool)
    is_valid[1, 2:4] = False
    return Prefix(tokens[:, :-1], tokens[:, -1:], is_valid)


def actions_of() -> torch.Tensor:
    return torch.randn(2, 5, 36, generator=torch.Generator().manual_seed(1))


def joint_pass(decoder, prefix: Prefix, actions: torch.Tensor) -> torch.Tensor:
    """Both streams through every layer at once, under one mask, as LeRobot trains them."""
    num_observed, num_steps = prefix.tokens.shape[1], actions.shape[1]
    is_valid = torch.cat([prefix.is_valid, torch.ones(2, num_steps) > 0], dim=1)
    flags = torch.tensor([0] * num_observed + [1] + [1] * num_steps)
    order = flags.cumsum(0)
    visible = (order <= order[:, None]) & is_valid[:, None] & is_valid[..., None]
    positions = is_valid.long().cumsum(1) - 1
    texts, experts = decoder.vlm.model.text_model.layers, decoder.lm_expert.layers
    streams = [torch.cat([prefix.tokens, prefix.state], dim=1), actions]
    for index, layers in enumerate(zip(texts, experts, strict=True)):
        normed = [
            rms_norm(each, layer.input_layernorm)
            for each, layer in zip(streams, layers, strict=True)
        ]
        streams = _layer(decoder, index, layers, streams, normed, visible, positions)
    return rms_norm(streams[1], decoder.lm_expert.norm)


def _layer(decoder, index, layers, streams, normed, visible, positions):
    number = streams[0].shape[1]
    places = [positions[:, :number], positions[:, number:]]
    is_joint = decoder.lm_expert.layers[index].is_joint
    if not is_joint:
        places[1] = places[1] - places[1][:, :1]
    turns = [rotary_embedding(each, 16) for each in places]
    queries = [_queries(*each) for each in zip(layers, normed, turns, strict=True)]
    observed = _heads(layers[0], normed[0], turns[0])
    if is_joint:
        own = _heads(layers[1], normed[1], turns[1])
        both = Heads(*(torch.cat(pair, dim=2) for pair in zip(observed, own, strict=True)))
        mixed = attention(torch.cat(queries, dim=2), both, visible).split([number, 5], dim=1)
    else:
        attn = layers[1].self_attn
        own = Heads(
            *(
                project(join_heads(each)).view(2, number, -1, 16).transpose(1, 2)
                for project, each in zip((attn.k_proj, attn.v_proj), observed, strict=True)
            )
        )
        mixed = (
            attention(queries[0], observed, visible[:, :number, :number]),
            attention(queries[1], own, visible[:, number:, :number]),
        )
    after = []
    for layer, hidden, found in zip(layers, streams, mixed, strict=True):
        hidden = hidden + layer.self_attn.o_proj(found)
        after.append(hidden + layer.mlp(rms_norm(hidden, layer.post_attention_layernorm)))
    return after


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("changes", CHANGES[:4], ids=str)
def test_reading_first_and_acting_then_is_a_joint_pass(tiny, changes, exact):
    decoder = tiny.network(**changes, exact=exact).model.vlm_with_expert
    prefix, actions = prefix_of(), actions_of()
    with torch.no_grad():
        expected = joint_pass(decoder, prefix, actions)
        found = decoder.act(actions, decoder.read(prefix))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_a_memory_prepared_for_many_steps_gives_the_same(tiny, changes, exact):
    decoder = tiny.network(**changes, exact=exact).model.vlm_with_expert
    with torch.no_grad():
        memory = decoder.read(prefix_of())
        found = [decoder.act(actions_of(), each) for each in (memory, decoder.prepared(memory))]
    assert torch.equal(*found)


def test_a_pass_without_gradients_reads_the_same(tiny):
    decoder, prefix = tiny.network(exact=False).model.vlm_with_expert, prefix_of()
    with torch.no_grad():
        whole = decoder.read(prefix)
    apart = decoder.read(prefix)
    for one, other in zip(whole.seen, apart.seen, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_an_action_sees_those_before_it_and_none_after(tiny, changes):
    decoder, actions = tiny.network(**changes).model.vlm_with_expert, actions_of()
    changed = actions.clone()
    changed[:, 3] += 1
    with torch.no_grad():
        memory = decoder.read(prefix_of())
        before, after = decoder.act(actions, memory), decoder.act(changed, memory)
    assert torch.equal(before[:, :3], after[:, :3])
    assert not torch.isclose(before[:, 3], after[:, 3]).all()
    sees_others = changes.get("self_attn_every_n_layers") != 0
    assert torch.isclose(before[:, 4], after[:, 4]).all() != sees_others


@pytest.mark.parametrize("exact", [True, False])
def test_padding_is_not_seen(tiny, exact):
    decoder = tiny.network(exact=exact).model.vlm_with_expert
    prefix, actions = prefix_of(), actions_of()
    changed = prefix.tokens.clone()
    changed[1, 2:4] += 1
    with torch.no_grad():
        found = [
            decoder.act(actions, decoder.read(prefix._replace(tokens=tokens)))
            for tokens in (prefix.tokens, changed)
        ]
    assert torch.equal(*found)


@pytest.mark.parametrize("exact", [True, False])
def test_images_and_words_do_not_see_the_state(tiny, exact):
    changes = {"attention_mode": "self_attn", "exact": exact}
    decoder, prefix = tiny.network(**changes).model.vlm_with_expert, prefix_of()
    with torch.no_grad():
        before, after = (
            decoder.read(prefix._replace(state=state)).seen
            for state in (prefix.state, prefix.state + 1)
        )
    # The first sample has no padding, whose own values are nobody's concern.
    for one, other in zip(before, after, strict=True):
        assert torch.equal(one.keys[0, :, :-1], other.keys[0, :, :-1])
        assert not torch.isclose(one.keys[0, :, -1], other.keys[0, :, -1]).all()


def test_parts_that_do_not_learn_stay_in_evaluation_mode(tiny):
    decoder = tiny.network().model.vlm_with_expert.train()
    assert decoder.lm_expert.training
    assert not any(module.training for module in decoder.vlm.modules())
    decoder = tiny.network(train_expert_only=False).model.vlm_with_expert.train()
    assert not decoder.vlm.model.vision_model.training
    assert decoder.vlm.model.text_model.training


def test_experts_of_fewer_layers_read_along_with_every_so_many(tiny):
    config = tiny.config(attention_mode="self_attn", num_expert_layers=2)
    assert vlm_layers(config, 4) == [0, 2]
    assert vlm_layers(tiny.config(), 4) == [0, 1, 2, 3]


MISFITS = [(3, "must divide the 4 VLM layers"), (2, "self-attention")]


@pytest.mark.parametrize(("number", "told"), MISFITS)
def test_experts_that_fall_out_of_step_are_refused(tiny, number, told):
    with pytest.raises(ConfigError, match=told):
        vlm_layers(tiny.config(num_expert_layers=number), 4)
