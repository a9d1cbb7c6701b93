"""What the launcher asked for, from the variables that torchrun, accelerate and SLURM wrappers set.

Each variable is used or refused by name: a launcher's wish that changes nothing would be a lie.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from manyhands.errors import EnvironmentFault

REFUSED = {
    "ACCELERATE_USE_FSDP": "sharding by accelerate's FSDP plugin",
    "ACCELERATE_USE_PARALLELISM_CONFIG": "accelerate's parallelism config",
    "ACCELERATE_USE_DEEPSPEED": "DeepSpeed",
    "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM",
}
TRUE = ("1", "true", "yes", "on")


@dataclass(frozen=True)
class Launcher:
    """The place a launcher gave this process, and what else it was told."""

    rank: int = 0
    num_ranks: int = 1
    local_rank: int = 0
    num_local_ranks: int = 1
    started_ranks: bool = False
    """Whether a launcher started this process as one of its workers."""
    use_cpu: bool = False
    mixed_precision: str | None = None
    accumulation: int | None = None

    @property
    def is_main(self) -> bool:
        """Whether this process speaks for all."""
        return self.rank == 0


def read_launcher(environ: Mapping[str, str]) -> Launcher:
    """Read a launcher's variables, refusing those that ask for what cannot be given."""
    _refuse(environ)
    num_ranks = _count(environ, "WORLD_SIZE", 1)
    precision = environ.get("ACCELERATE_MIXED_PRECISION")
    accumulation = _count(environ, "ACCELERATE_GRADIENT_ACCUMULATION_STEPS", 1)
    return Launcher(
        rank=_count(environ, "RANK", 0),
        num_ranks=num_ranks,
        local_rank=_count(environ, "LOCAL_RANK", 0),
        num_local_ranks=_count(environ, "LOCAL_WORLD_SIZE", num_ranks),
        started_ranks="RANK" in environ,
        use_cpu=_is_on(environ, "ACCELERATE_USE_CPU"),
        mixed_precision=precision if precision not in ("no", "") else None,
        accumulation=accumulation if accumulation > 1 else None,
    )


def _refuse(environ: Mapping[str, str]) -> None:
    wanted = [f"{what} ({name})" for name, what in REFUSED.items() if _is_on(environ, name)]
    backend = environ.get("ACCELERATE_DYNAMO_BACKEND", "no")
    if backend.lower() not in ("no", ""):
        wanted.append(f"compilation with {backend} (ACCELERATE_DYNAMO_BACKEND)")
    if environ.get("ACCELERATE_MIXED_PRECISION") == "fp8":
        wanted.append("fp8 (ACCELERATE_MIXED_PRECISION)")
    if wanted:
        raise EnvironmentFault(
            f"the launcher asks for {', '.join(wanted)}, which does not exist here; "
            "leave it out of the launcher's flags or its config file"
        )


def _is_on(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(name, "").lower() in TRUE


def _count(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "")
    if not text:
        return default
    if not text.isdecimal():
        raise EnvironmentFault(f"the launcher's variable {name}={text} is not a whole number")
    return int(text)
