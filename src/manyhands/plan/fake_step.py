"""Measures the memory of a training step with fake tensors, which have shapes but no values."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call

from manyhands.draws.generator import GeneratorSource
from manyhands.plan.gpu_emulation import LOW, GpuEmulation, LiveBytes
from manyhands.policies.policy import Policy, weighted_loss
from manyhands.policies.synthetic import synthetic_batch
from manyhands.types import Network

CPU = torch.device("cpu")


@dataclass(frozen=True)
class StepConditions:
    """The conditions that determine the memory of a step."""

    num_samples: int  # Samples at a time.
    in_low_precision: bool
    keeps_gradients: bool
    """Whether the gradients of all weights are there from the beginning to the end."""
    has_whole_weights: bool
    """Whether weights are at hand, or are gathered, and their gradients given away, as needed."""


class FakeSteps:
    """Fake training steps of one policy, which is unusable afterwards."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy.train()
        self.network = policy.network
        self._fake = FakeTensorMode(allow_non_fake_inputs=True)
        fake_parameters(policy.network, self._fake)
        self._found: dict[StepConditions, int] = {}

    def most_bytes(self, conduct: StepConditions) -> int:
        """Peak memory of a step besides weights: its batch, activations and gradients."""
        if conduct not in self._found:
            self._found[conduct] = self._rehearsed(conduct)
        return self._found[conduct]

    def _rehearsed(self, conduct: StepConditions) -> int:
        policy, network = self._policy, cast(Network, self.network)
        likeness, live = GpuEmulation(conduct.in_low_precision), LiveBytes()
        with self._fake:
            weights = weights_of(self.network, conduct)
            live.count([*weights.values(), *self.network.buffers()])
            held = live.now
            with likeness, live, gradients([*weights.values()], conduct):
                batch = synthetic_batch(policy.config, conduct.num_samples, CPU)
                draws = policy.cast(network.draw(GeneratorSource(conduct.num_samples)))
                inputs = policy.prepare(batch)
                counts = network.entry_counts(inputs)
                with likeness.autocast():
                    terms = functional_call(self.network, weights, (inputs, draws))
                loss, _ = weighted_loss(terms, counts)
                del terms
                torch.autograd.backward(loss)
        return live.most - held


def fake_parameters(network: nn.Module, fake: FakeTensorMode) -> None:
    """Replace all tensors of a network by fake tensors."""
    made: dict[int, nn.Parameter] = {}
    for module in network.modules():
        for name, weight in module._parameters.items():
            if weight is not None and id(weight) not in made:
                empty = fake.from_tensor(weight.detach())
                made[id(weight)] = nn.Parameter(empty, weight.requires_grad)
            module._parameters[name] = None if weight is None else made[id(weight)]
        for name, buffer in module._buffers.items():
            module._buffers[name] = None if buffer is None else fake.from_tensor(buffer)


def weights_of(network: nn.Module, conduct: StepConditions) -> dict[str, Tensor]:
    """The weights that a step computes with: the network's own, or gathered ones."""
    own = dict(network.named_parameters())
    if conduct.has_whole_weights or not conduct.in_low_precision:
        return {**own}
    return {name: nn.Parameter(own[name].detach().to(LOW), own[name].requires_grad) for name in own}


@contextmanager
def gradients(weights: list[Tensor], conduct: StepConditions) -> Iterator[None]:
    """Allocate and free gradients as the strategy does."""
    trained = [weight for weight in weights if weight.requires_grad]
    hooks = []
    if not conduct.has_whole_weights:
        hooks = [each.register_post_accumulate_grad_hook(drop_gradient) for each in trained]
    elif conduct.keeps_gradients:
        for weight in trained:
            weight.grad = torch.empty_like(weight)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for weight in trained:
            drop_gradient(weight)


def drop_gradient(weight: Tensor) -> None:
    """Free the gradient of a weight."""
    weight.grad = None
