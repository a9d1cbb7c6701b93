"""`manyhands push`: upload the policy of a run to the Hub."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from manyhands.cli.flags import read_config, split_names
from manyhands.config.check import is_hub_name
from manyhands.config.commands.push import PushConfig
from manyhands.config.resolve import resolve_train_config
from manyhands.config.runs.run_dir import PRETRAINED, SHARDS, TRAINING_STATE, find_checkpoint
from manyhands.config.train import TrainConfig
from manyhands.errors import UserError

USAGE = """manyhands push RUN YOUR_NAME/POLICY_NAME [--private=true] [--license=mit] [--tags=[a,b]]

Uploads the policy of a run, or of one of its checkpoints, to the Hub with a model card; its EMA
weights to YOUR_NAME/POLICY_NAME-ema."""


def push_command(arguments: Sequence[str]) -> int:
    """Upload a policy; return the exit code."""
    names, flags = split_names(arguments)
    if len(names) != 2 and not {"-h", "--help"} & {*flags}:
        raise UserError("push needs a run and a name: manyhands push outputs/pick me/pick")
    push = read_config(PushConfig, USAGE, flags)
    checkpoint, repo_id = find_checkpoint(Path(names[0]), ""), names[1]
    if not is_hub_name(repo_id):
        raise UserError(f"{repo_id} is not a name on the Hub, such as YOUR_NAME/POLICY_NAME")
    config = published_config(checkpoint, repo_id, push)
    from manyhands.policies.publish import BY_COMMAND, check_hub_access, publish_checkpoint

    check_hub_access(config, BY_COMMAND)
    for line in publish_checkpoint(checkpoint, config, *run_files(checkpoint.parent.parent)):
        print(line)
    return 0


def published_config(checkpoint: Path, repo_id: str, push: PushConfig) -> TrainConfig:
    """The config of the run, with what the flags of push set."""
    is_sharded = (checkpoint / TRAINING_STATE / SHARDS).is_dir()
    if is_sharded and not any((checkpoint / PRETRAINED).glob("*.safetensors")):
        raise UserError(
            f"{checkpoint} has sharded weights. First run: manyhands convert "
            f"--checkpoint={checkpoint}"
        )
    config = resolve_train_config({"resume": str(checkpoint)})
    assert config.policy is not None
    policy = replace(
        config.policy,
        repo_id=repo_id,
        private=config.policy.private if push.private is None else push.private,
        license=push.license or config.policy.license,
        tags=push.tags or config.policy.tags,
    )
    return replace(config, policy=policy)


def run_files(run_dir: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The facts and metrics of a run; empty for a checkpoint that was copied out of one."""
    from manyhands.observe.diagnosis.run_verdict import read_facts
    from manyhands.observe.jsonl import read_rows
    from manyhands.observe.run_status import METRICS_FILE

    rows = run_dir / METRICS_FILE
    return read_facts(run_dir), list(read_rows(rows)) if rows.is_file() else []
