"""Compiled steps equal eager ones, tensor by tensor, over all kinds of policies and options.

The cases cover every pair of values of any two options. One norm over all gradients hides a layer
that is wrong where the others are right, so every tensor is compared by itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations, product

import pytest
import torch
from torch import Tensor

from manyhands.checkpoint.snapshot import Position
from manyhands.parallel.world import joined_world
from manyhands.training.setup.assemble import build_learner
from manyhands.training.step.learner import Learner
from manyhands.types import Batch
from manyhands_bench.step.command import read_step_flags
from manyhands_bench.step.subject import subject_of

Case = Mapping[str, str]
"""The value of every option."""

OPTIONS = {
    "accumulation": ("1", "2"),
    "precision": ("no", "bf16", "fp16"),
    "ema": ("true", "false"),
    "augmentation": ("true", "false"),
    "image_size": ("[61,75]", "[64,52]", "[97,96]"),
}
DIFFUSION = OPTIONS | {
    "use_group_norm": ("true", "false"),
    "crop": ("none", "odd at random", "even at random", "odd in the center"),
    "horizon": ("8", "16", "24"),
    "cameras": ("1", "2", "3"),
    "use_separate_rgb_encoder_per_camera": ("true", "false"),
    "batch_size": ("2", "5"),
}
ACT = OPTIONS | {
    "chunk_size": ("5", "8"),
    "cameras": ("1", "2", "3"),
    "use_vae": ("true", "false"),
    "pre_norm": ("true", "false"),
    "batch_size": ("2", "5"),
}
SMOLVLA = OPTIONS | {
    "precision": ("no", "bf16"),
    "image_size": ("[61,75]", "[64,52]"),
    "chunk_size": ("5", "8"),
    "cameras": ("1", "2"),
    "batch_size": ("2", "3"),
}
CROPS = {
    "none": (),
    "odd at random": ("--policy.crop_shape=[51,43]",),
    "even at random": ("--policy.crop_shape=[52,44]",),
    "odd in the center": ("--policy.crop_shape=[51,43]", "--policy.crop_is_random=false"),
}
FIXED = {
    "diffusion": (
        "--policy.down_dims=[16,32,64]",
        "--policy.n_action_steps=4",
        "--policy.diffusion_step_embed_dim=16",
        "--policy.spatial_softmax_num_keypoints=8",
        "--policy.scheduler_warmup_steps=1",
        "--policy.pretrained_backbone_weights=null",
    ),
    "act": (
        "--policy.dim_model=32",
        "--policy.n_heads=2",
        "--policy.dim_feedforward=64",
        "--policy.n_encoder_layers=2",
        "--policy.n_vae_encoder_layers=1",
        "--policy.latent_dim=4",
        "--policy.n_action_steps=4",
        "--policy.pretrained_backbone_weights=null",
    ),
    "smolvla": ("--policy.n_action_steps=4",),
}
ONE_CAMERA = {
    "accumulation": "1",
    "precision": "no",
    "ema": "false",
    "augmentation": "false",
    "image_size": "[96,96]",
    "cameras": "1",
    "batch_size": "8",
}
# Inductor pads rows of 42 x 42 values, which these crops lead to, from some batch size on.
PADDED = ONE_CAMERA | {"use_group_norm": "true", "crop_shape": "[84,84]", "horizon": "16"}
EXTRA = [
    *(("diffusion", PADDED | {"batch_size": size}) for size in ("8", "64", "256")),
    ("diffusion", PADDED | {"batch_size": "64", "precision": "bf16"}),
    ("diffusion", PADDED | {"batch_size": "64", "use_group_norm": "false"}),
    # Without a camera, whose options would cover pairs and show nothing.
    ("diffusion", ONE_CAMERA | {"cameras": "0", "horizon": "8", "ema": "true"}),
    ("act", ONE_CAMERA | {"cameras": "0", "chunk_size": "5", "accumulation": "2"}),
]
NUM_STEPS = {"cuda": 5, "cpu": 2}
WITHOUT_GRADIENT = "pool.nets.bias"
"""A bias that a softmax ignores: its gradient is rounding alone."""
NEGLIGIBLE = 1e-3
"""Root mean square of a tensor's gradient relative to that of all, below which it is noise."""
TOLERANCES = {"no": 5e-3, "bf16": 0.2, "fp16": 0.1}
"""Largest difference of a tensor, relative to its norm. A wrong layer differs by its whole size."""
ROUNDINGS = {"no": 2.0**-11, "bf16": 2.0**-9, "fp16": 2.0**-11}
"""Relative rounding errors; products of float32 are made in TF32."""
NOISE_SEEDS = (1, 2)
MAX_TIMES_NOISE = 2.0
"""How many times as far as rounding errors of the weights kernels may move a gradient.

Batch norm over two samples magnifies them a hundredfold, and the sign of an L1 loss jumps.
"""
LOSS_TOLERANCES = {"no": 1e-2, "bf16": 0.1, "fp16": 0.1}
FP16_SCALE = 256.0
"""A loss scale that neither overflows nor underflows in the first step."""

Pair = frozenset[tuple[str, str]]


def pairs_of(case: Case) -> set[Pair]:
    """Every two values that a case has together."""
    return {frozenset(pair) for pair in combinations(case.items(), 2)}


def covering_cases(options: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Few cases in which every two values of different options occur together.

    Each case starts from a pair that is still missing; then every option takes the value that adds
    most pairs.
    """
    missing = {
        frozenset([(one, value), (other, another)])
        for one, other in combinations(options, 2)
        for value, another in product(options[one], options[other])
    }
    cases = []
    while missing:
        case = dict(min(missing, key=sorted))
        for name in sorted(options, key=lambda name: -len(options[name])):
            if name not in case:
                values = {
                    each: len(pairs_of(case | {name: each}) & missing) for each in options[name]
                }
                most = max(values.values())
                tied = [value for value, number in values.items() if number == most]
                case[name] = tied[len(cases) % len(tied)]
        missing -= pairs_of(case)
        cases.append({name: case[name] for name in options})
    return cases


@pytest.mark.parametrize("options", [DIFFUSION, ACT, SMOLVLA], ids=["diffusion", "act", "smolvla"])
def test_every_pair_of_values_occurs(options):
    cases = covering_cases(options)
    found = set().union(*map(pairs_of, cases))
    for one, other in combinations(options, 2):
        for pair in product(options[one], options[other]):
            assert frozenset(zip((one, other), pair, strict=True)) in found
    assert all(case.keys() == options.keys() for case in cases)
    largest = sorted(map(len, options.values()))[-2:]
    assert len(cases) <= 2 * largest[0] * largest[1]
    assert cases == covering_cases(options)


def flags_of(policy: str, case: Case, device: torch.device) -> list[str]:
    """The command line of a case."""
    places = {
        "accumulation": "--accelerator.gradient_accumulation.steps",
        "precision": "--accelerator.mixed_precision",
        "ema": "--ema.enable",
        "augmentation": "--dataset.image_transforms.enable",
        "image_size": "--image_size",
        "cameras": "--cameras",
        "batch_size": "--batch_size",
    }
    options = dict(case)
    crop = CROPS[options.pop("crop", "none")]
    if options["cameras"] == "0":
        del options["image_size"]
    if device.type == "cpu":
        # Loss scaling is for GPUs, and so are large batches.
        options["precision"] = options["precision"].replace("fp16", "no")
        options["batch_size"] = "2"
    named = [f"{places.get(name, f'--policy.{name}')}={value}" for name, value in options.items()]
    own = [f"--policy.type={policy}", f"--policy.device={device.type}", "--steps=1000"]
    return [*own, *FIXED[policy], *crop, "--state_dim=6", "--action_dim=5", *named]


@contextmanager
def learning(flags: Sequence[str], mode: str) -> Iterator[tuple[Learner, Batch]]:
    """A learner in a step mode on synthetic data, and a batch on its device."""
    bench, config = read_step_flags([*flags, f"--step.mode={mode}"])
    with joined_world(config) as world:
        subject = subject_of(bench, config, world)
        learner, _ = build_learner(subject.config, subject.stats, world, subject.split)
        scaler = learner.snapshot(Position()).state.scaler
        learner.step.engine.load_scaler_state({**scaler, "scale": FP16_SCALE} if scaler else {})
        yield learner, subject.batch


def first_gradients(learner: Learner) -> dict[str, Tensor]:
    """The gradients that the optimizer has seen after one step: its first moments.

    They are linear in the gradients, because moments start from zero.
    """
    states = learner.optimizer.state
    return {
        name: states[weight]["exp_avg"].double().cpu()
        for name, weight in learner.policy.network.named_parameters()
        if weight in states
    }


def noisy_gradients(flags: Sequence[str], rounding: float, seed: int) -> dict[str, Tensor]:
    """Gradients of an eager step whose weights differ by rounding errors."""
    with learning(flags, "eager") as (learner, batch):
        generator = torch.Generator(learner.policy.device).manual_seed(seed)
        with torch.no_grad():
            for weight in learner.policy.network.parameters():
                noise = torch.rand(weight.shape, generator=generator, device=weight.device)
                weight.mul_(1 + rounding * (2 * noise - 1))
        learner.train_step(batch, 0)
        return first_gradients(learner)


def statistics(learner: Learner) -> dict[str, Tensor]:
    """What a step changes of a network's buffers, such as running means."""
    buffers = learner.policy.network.named_buffers()
    return {name: value.double().cpu() for name, value in buffers if value.is_floating_point()}


def differences(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> dict[str, float]:
    """The relative difference of every tensor that is not negligible, the largest first."""
    assert found.keys() == expected.keys()
    total = sum(value.square().sum().item() for value in expected.values())
    size = max(1, sum(value.numel() for value in expected.values()))
    least = NEGLIGIBLE * (total / size) ** 0.5
    values = {
        name: ((found[name] - value).norm() / value.norm()).item()
        for name, value in expected.items()
        if value.numel() and value.square().mean().sqrt() >= least and value.norm() > 0
        if not name.endswith(WITHOUT_GRADIENT)
    }
    return dict(sorted(values.items(), key=lambda item: -item[1]))


def assert_alike(
    found: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    tolerance: float,
    noisy: Sequence[Mapping[str, Tensor]] = (),
) -> None:
    """Every tensor by itself; the report names those that differ."""
    assert all(value.isfinite().all() for value in found.values())
    values = differences(found, expected)
    worst = {name: f"{value:.2g}" for name, value in list(values.items())[:5]}
    print(f"{len(values)} of {len(expected)} tensors compared, worst: {worst}")
    noise = [differences(each, expected) for each in noisy]
    allowed = {
        name: tolerance + MAX_TIMES_NOISE * max((each[name] for each in noise), default=0.0)
        for name in values
    }
    # Written so that NaN is too large.
    wrong = [name for name, value in values.items() if not value <= allowed[name]]
    assert not wrong, f"{len(wrong)} of {len(values)} tensors differ by over {tolerance}: {worst}"


def run_steps(
    flags: Sequence[str], mode: str
) -> tuple[dict[str, Tensor], dict[str, Tensor], Tensor]:
    """Gradients and statistics after one step, and the losses of several."""
    with learning(flags, mode) as (learner, batch):
        losses = []
        for step in range(NUM_STEPS[learner.policy.device.type]):
            rolled = {name: value.roll(step, 0) for name, value in batch.items()}
            losses.append(learner.train_step(rolled, step).terms["loss"])
            if step == 0:
                first = first_gradients(learner), statistics(learner)
        expected = mode if learner.policy.device.type == "cuda" else "eager"
        assert learner.mode == expected, learner.messages()
        assert learner.max_abs_weight().isfinite()
        averages = [value for value in learner.ema.averages if value.is_floating_point()]
        assert all(value.isfinite().all() for value in averages)
        return *first, torch.stack(losses).double().cpu()


def described(policy: str, case: Case) -> str:
    return "-".join([policy, *(f"{name}={value}" for name, value in case.items())]).replace(
        " ", "_"
    )


CASES = [
    *(("diffusion", case) for case in covering_cases(DIFFUSION)),
    *(("act", case) for case in covering_cases(ACT)),
    *(("smolvla", case) for case in covering_cases(SMOLVLA)),
    *EXTRA,
]


@pytest.fixture(scope="module")
def device(pytestconfig) -> torch.device:
    """A GPU, or a CPU that is asked for: it steps eagerly in every mode."""
    if pytestconfig.getoption("--steps-on-cpu"):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    return torch.device("cuda")


@pytest.mark.gpu
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("policy", "case"), CASES, ids=[described(policy, case) for policy, case in CASES]
)
def test_compiled_steps_are_eager_ones(device, tiny_smolvla, policy, case):
    # Takes seconds to import.
    from torch._dynamo import config as dynamo

    flags, precision = flags_of(policy, case, device), case["precision"]
    if policy == "smolvla":
        flags += [
            each for each in tiny_smolvla if "chunk" not in each and "action_steps" not in each
        ]
    # What earlier cases compiled counts towards a limit, beyond which torch silently runs eagerly.
    torch.compiler.reset()
    strict = dynamo.patch(fail_on_recompile_limit_hit=True)
    exact = torch.backends.cudnn.flags(enabled=True, benchmark=False, allow_tf32=False)
    with strict, exact:
        expected, found = (run_steps(flags, mode) for mode in ("eager", "compile"))
        noisy = [noisy_gradients(flags, ROUNDINGS[precision], seed) for seed in NOISE_SEEDS]
    assert_alike(found[0], expected[0], TOLERANCES[precision], noisy)
    assert_alike(found[1], expected[1], TOLERANCES[precision])
    torch.testing.assert_close(found[2], expected[2], rtol=LOSS_TOLERANCES[precision], atol=1e-3)


def test_one_wrong_layer_is_named():
    cpu = torch.device("cpu")
    flags = flags_of("diffusion", dict(EXTRA[-2][1]), cpu)
    with learning(flags, "eager") as (learner, batch):
        learner.train_step(batch, 0)
        expected = first_gradients(learner)
    name = "diffusion.unet.final_conv.1.bias"
    with learning(flags, "eager") as (learner, batch):
        dict(learner.policy.network.named_parameters())[name].register_hook(lambda grad: 1.1 * grad)
        learner.train_step(batch, 0)
        found = first_gradients(learner)
    assert_alike(expected, expected, 0.0)
    with pytest.raises(AssertionError, match=rf"differ by over .*{name}"):
        assert_alike(found, expected, TOLERANCES["no"])
