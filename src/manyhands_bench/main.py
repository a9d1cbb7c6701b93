"""`manyhands bench`: measurements, as a table for people and JSON for programs."""

from collections.abc import Callable, Sequence

from manyhands.config.schema.help import usage_text
from manyhands.errors import ConfigError

USAGE = """manyhands bench WHAT --dataset.root=DIR --policy.type=act [--flag=value ...]

  manyhands bench loader     samples per second of the data loader
  manyhands bench step       time, memory and efficiency of a training step on this device
  manyhands bench inference  latency of a policy's action chunks on this device
  manyhands bench scaling    speed-up, efficiency and communication over process counts
  manyhands bench resume     exact resume after kill -9 at any moment; cost of saving

`manyhands bench WHAT --help` lists the flags; those of manyhands train are among them."""

KNOWN = ("loader", "step", "inference", "scaling", "resume")

Bench = Callable[[Sequence[str]], int]


def bench_command(arguments: Sequence[str]) -> int:
    """Measure what the first word names; return the exit code."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage_text(USAGE))
        return 0 if arguments else 2
    bench = find_bench(arguments[0])
    if bench is None:
        known = ", ".join(f"bench {name}" for name in KNOWN)
        raise ConfigError([f"bench {arguments[0]} is unknown; choose from {known}"])
    return bench(arguments[1:])


def find_bench(name: str) -> Bench | None:
    """The measurement of that name; each is imported only when used."""
    match name:
        case "loader":
            from manyhands_bench.loader.command import bench_loader_command

            return bench_loader_command
        case "step":
            from manyhands_bench.step.command import bench_step_command

            return bench_step_command
        case "inference":
            from manyhands_bench.inference.command import bench_inference_command

            return bench_inference_command
        case "scaling":
            from manyhands_bench.scaling.command import bench_scaling_command

            return bench_scaling_command
        case "rank":
            # What bench scaling starts, once per process.
            from manyhands_bench.scaling.command import bench_rank_command

            return bench_rank_command
        case "resume":
            from manyhands_bench.resume.command import bench_resume_command

            return bench_resume_command
        case "nursery":
            # What bench resume has its runs forked off.
            from manyhands_bench.resume.command import fork_server_command

            return fork_server_command
    return None
