"""Requests of the launcher, from the variables that torchrun, accelerate and manyhands set.

Each variable is used or rejected with an error that names it; none is ignored silently.
"""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

from manyhands.config.launch.launcher_fsdp import read_sharding, reject_unsupported
from manyhands.config.sections.execution import FsdpConfig, ParallelismConfig
from manyhands.errors import EnvironmentFault

REJECTED = {
    "ACCELERATE_USE_DEEPSPEED": "DeepSpeed",
    "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM",
}
TAKEN_OVER = (
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
    "ACCELERATE_USE_FSDP",
    "ACCELERATE_USE_PARALLELISM_CONFIG",
)
"""What manyhands does itself; with these variables Accelerate would do it a second time."""
TAKEN = "MANYHANDS_TAKEN_"  # Beginning of the names of such variables once they are taken over.
USED = (
    *TAKEN_OVER,
    "ACCELERATE_CPU_AFFINITY",
    "ACCELERATE_MIXED_PRECISION",
    "ACCELERATE_USE_CPU",
)
HEEDED_BY_ACCELERATE = ("ACCELERATE_LOG_LEVEL", "ACCELERATE_ENABLE_RICH")
DETAILS = ("FSDP_", "PARALLELISM_CONFIG_", "MEGATRON_LM_")
"""Beginnings of variables that say how to do what an ACCELERATE_USE_... variable asks for."""
OFF = ("", "0", "no", "none", "false", "off", "default")
LISTENING = "MANYHANDS_LISTENING"
"""Set by our own launcher: the number of an inherited socket on the main rank, else zero."""
FULL_PRECISION = "MANYHANDS_FULL_PRECISION"
"""Set where the user asked accelerate for `no`: its own variable reads `no` by default too."""
TRUE = ("1", "true", "yes", "on")


@dataclass(frozen=True)
class Launcher:
    """Rank, rendezvous and settings that a launcher gave this process."""

    rank: int = 0
    num_ranks: int = 1
    local_rank: int = 0
    num_local_ranks: int = 1
    started_ranks: bool = False  # Whether a launcher started this process as one of its workers.
    main_address: str | None = None
    main_port: int | None = None  # Rendezvous port.
    listening: int | None = None
    """The socket of that port, inherited from our own launcher by the main rank."""
    is_ours: bool = False  # Whether our own launcher started this process.
    attempt: int = 0  # How often torchrun has restarted these ranks; its store stays the same.
    use_cpu: bool = False
    binds_cores: bool = False  # Whether each process runs on the cores next to its GPU.
    mixed_precision: str | None = None
    """The precision set in the launcher, `no` included; None if unset."""
    accumulation: int | None = None
    parallelism: ParallelismConfig | None = None
    """Degrees set in the launcher; one copy of the weights over all ranks is dp_shard=-1."""
    fsdp: FsdpConfig | None = None  # FSDP settings of the launcher, if it asks for sharding.
    checkpoint_format: str | None = None  # Whether shards are saved as they are.

    @property
    def is_main(self) -> bool:
        """Whether this process is the main rank."""
        return self.rank == 0


def take_over(environ: MutableMapping[str, str]) -> None:
    """Rename a launcher's variables for what Accelerate must not do."""
    for name in TAKEN_OVER:
        if name in environ:
            environ[TAKEN + name] = environ.pop(name)


def read_launcher(environ: Mapping[str, str]) -> Launcher:
    """Read a launcher's variables, taken over or not; reject unsupported requests."""
    environ = {name.removeprefix(TAKEN): value for name, value in environ.items()}
    reject_unsupported(_requests(environ))
    num_ranks = _count(environ, "WORLD_SIZE", 1)
    num_local_ranks = _count(environ, "LOCAL_WORLD_SIZE", num_ranks)
    accumulation = _count(environ, "ACCELERATE_GRADIENT_ACCUMULATION_STEPS", 1)
    shards = _is_on(environ, "ACCELERATE_USE_FSDP")
    sharding = read_sharding(environ, num_local_ranks) if shards else None
    return Launcher(
        rank=_count(environ, "RANK", 0),
        num_ranks=num_ranks,
        local_rank=_count(environ, "LOCAL_RANK", 0),
        num_local_ranks=num_local_ranks,
        started_ranks="RANK" in environ,
        main_address=environ.get("MASTER_ADDR") or None,
        main_port=_count(environ, "MASTER_PORT", 0) or None,
        listening=_count(environ, LISTENING, 0) or None,
        is_ours=LISTENING in environ,
        attempt=_count(environ, "TORCHELASTIC_RESTART_COUNT", 0),
        use_cpu=_is_on(environ, "ACCELERATE_USE_CPU"),
        binds_cores=_is_on(environ, "ACCELERATE_CPU_AFFINITY"),
        mixed_precision=_precision(environ),
        accumulation=accumulation if accumulation > 1 else None,
        parallelism=sharding.parallelism if sharding else None,
        fsdp=sharding.fsdp if sharding else None,
        checkpoint_format=sharding.checkpoint_format if sharding else None,
    )


def _precision(environ: Mapping[str, str]) -> str | None:
    precision = environ.get("ACCELERATE_MIXED_PRECISION", "")
    if precision not in ("no", ""):
        return precision
    return "no" if _is_on(environ, FULL_PRECISION) else None


def _requests(environ: Mapping[str, str]) -> list[str]:
    """The unsupported requests of a launcher, each with its variable."""
    wanted = [f"{what} ({name})" for name, what in REJECTED.items() if _is_on(environ, name)]
    backend = environ.get("ACCELERATE_DYNAMO_BACKEND", "no")
    if backend.lower() not in OFF:
        wanted.append(f"compilation with {backend} (ACCELERATE_DYNAMO_BACKEND)")
    if environ.get("ACCELERATE_MIXED_PRECISION") == "fp8":
        wanted.append("fp8 (ACCELERATE_MIXED_PRECISION)")
    named = (*REJECTED, *USED, *HEEDED_BY_ACCELERATE, "ACCELERATE_DYNAMO_BACKEND")
    unknown = [name for name in environ if name.startswith("ACCELERATE_") and name not in named]
    unknown += _details_of_nothing(environ)
    wanted += [f"{name}={environ[name]}" for name in unknown if _is_requested(environ, name)]
    return wanted


def _details_of_nothing(environ: Mapping[str, str]) -> list[str]:
    """Variables that configure sharding while sharding is off."""
    if any(_is_on(environ, name) for name in ("ACCELERATE_USE_FSDP", *REJECTED)):
        return []
    details = (*DETAILS, "ACCELERATE_USE_PARALLELISM_CONFIG")
    return [name for name in environ if name.startswith(details)]


def _is_requested(environ: Mapping[str, str], name: str) -> bool:
    return environ[name].lower() not in OFF


def _is_on(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(name, "").lower() in TRUE


def _count(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "")
    if not text:
        return default
    if not text.isdecimal():
        raise EnvironmentFault(f"the launcher's variable {name}={text} is not an integer")
    return int(text)
