"""What is run on several GPUs: one table, with the flags of every case."""

from collections.abc import Iterator
from dataclasses import dataclass

from run_dataset import Recording
from run_flags import SMOLVLA

from manyhands_bench.resume.cases import POLICIES

NUM_STEPS = 40
LOG_EVERY = 4
ENDLESS = 1_000_000
DATASET = Recording(
    sizes={"observation.state": 4, "observation.environment_state": 4, "action": 3},
    cameras={"observation.images.top": (32, 32)},
)

COMMON = (
    "--global_batch_size=8",
    f"--log_freq={LOG_EVERY}",
    "--num_workers=0",
    "--optimizer.lr=1e-4",
    "--scheduler.type=constant_with_warmup",
    "--scheduler.num_warmup_steps=0",
    "--timeout_s=120",
)
"""A constant learning rate: runs of other lengths have the same losses."""
FLOAT32 = ("--accelerator.mixed_precision=no",)
"""Rounding, which depends on the number of ranks, stays small."""
IMAGES = ("--policy.pretrained_backbone_weights=null",)
ACT = (*POLICIES["act"], *IMAGES, "--policy.dropout=0")
POLICY_FLAGS = {
    "act": (*ACT, *FLOAT32),
    "act_fp16": (*ACT, "--accelerator.mixed_precision=fp16"),
    "diffusion": (
        *FLOAT32,
        *POLICIES["diffusion"],
        *IMAGES,
        "--policy.use_group_norm=false",
        "--policy.crop_shape=[28, 28]",
        "--policy.spatial_softmax_num_keypoints=4",
    ),
    "smolvla": (*SMOLVLA, *FLOAT32),
    "vectors": (*POLICIES["act"], "--policy.dropout=0", *FLOAT32),
}
"""Small policies; SmolVLA also needs the folder of its model, and the last one has no camera."""
MODE_FLAGS = {
    "eager": ("--step.mode=eager",),
    "graph": ("--step.mode=graph",),
    "compile": ("--step.mode=compile",),
    "auto": ("--step.mode=auto", "--step.compile_min_left_s=0"),
}
STRATEGY_FLAGS = {
    "ddp": (),
    "fsdp": ("--parallelism.dp_shard=-1",),
    "hsdp": ("--parallelism.dp_replicate=2", "--parallelism.dp_shard=2"),
}
TOLERANCES = {"eager": 1e-2, "graph": 1e-2, "compile": 5e-2, "auto": 5e-2}
"""Largest difference of a logged loss from that of one eager process, relative to the loss.

TF32 rounds sums over other batches otherwise, and fused kernels in other places.
"""
DEADLINES_S = {"compile": 900.0, "auto": 1500.0}
DEADLINE_S = 300.0
DECISIONS = ("Switched to the compiled step", "Compiled step not", "Compiled step disabled")
DECISIONS += ("CUDA graph of compiled modules", "CUDA graph disabled")
"""What a run in the mode auto logs once it has decided."""


@dataclass(frozen=True)
class Case:
    """A run on several devices, and what must come of it."""

    policy: str
    kind: str = "train"
    """train, or what happens on the way: out of memory, killed, stopped, resumed."""
    mode: str = "eager"
    strategy: str = "ddp"
    num_processes: int = 2

    @property
    def name(self) -> str:
        """A name for the table and the folder."""
        parts = (self.kind, self.policy, self.strategy, self.mode, str(self.num_processes))
        return "-".join(parts).replace(" ", "-")

    @property
    def deadline_s(self) -> float:
        """How long it may take."""
        return DEADLINES_S.get(self.mode, DEADLINE_S)

    @property
    def flags(self) -> tuple[str, ...]:
        """Its flags, but for data, device and folder."""
        own = (*POLICY_FLAGS[self.policy], *MODE_FLAGS[self.mode], *STRATEGY_FLAGS[self.strategy])
        return (*COMMON, *own, f"--launch.num_processes={self.num_processes}")


def gpu_cases() -> Iterator[Case]:
    """Everything that several GPUs are to show."""
    for policy in ("act", "diffusion", "smolvla"):
        for mode in MODE_FLAGS:
            yield Case(policy, mode=mode)
    yield Case("act", strategy="fsdp")
    yield Case("act_fp16", strategy="fsdp")
    yield Case("diffusion", strategy="fsdp")
    yield Case("act", strategy="hsdp", num_processes=4)
    # A graph allocates nothing when it is replayed.
    yield Case("act", "out of memory")
    for kind in ("killed", "stopped", "resumed"):
        yield Case("act", kind, "graph")


CPU_CASES = [Case("vectors"), *(Case("vectors", kind) for kind in ("killed", "resumed"))]
CPU_CASES.append(Case("vectors", "out of memory"))
"""A few of them on CPUs, which show that the cases themselves are right."""
