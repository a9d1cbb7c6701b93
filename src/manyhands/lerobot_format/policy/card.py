"""The model card of a published policy: metadata for the Hub, and a description."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import yaml

from manyhands.config.policies.registry import policy_title
from manyhands.config.train import DatasetConfig, TrainConfig

CARD_FILE = "README.md"

_DATASETS = "https://huggingface.co/datasets"
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")

Facts = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class TrainingRecord:
    """What is known of the training of a policy."""

    step: int | None = None
    """Steps after which the weights were saved."""
    facts: Facts = field(default_factory=dict)
    """Those of `run.json`."""
    rows: Sequence[Facts] = ()
    """Those of `metrics.jsonl` up to that step."""

    @classmethod
    def until(cls, step: int, facts: Facts, rows: Sequence[Facts]) -> Self:
        """The record of weights saved after a step of a run that may have continued."""
        own = [row for row in rows if isinstance(row.get("step"), int) and row["step"] <= step]
        return cls(step=step, facts=facts, rows=own)

    def last(self, name: str) -> str | None:
        """The last value of a metric with its step."""
        found = [row for row in self.rows if isinstance(row.get(name), int | float)]
        return f"{found[-1][name]:.6g} (step {found[-1]['step']})" if found else None


UNKNOWN = TrainingRecord()


def model_card(
    repo_id: str, config: TrainConfig, record: TrainingRecord = UNKNOWN, is_average: bool = False
) -> str:
    """Build the model card of a policy, whose weights may be an EMA; unknown facts are skipped."""
    assert config.policy is not None
    front = yaml.safe_dump(_front_matter(config, record.facts), sort_keys=False, allow_unicode=True)
    kind = policy_title(config.policy.type)
    averaged = ["The weights are an exponential moving average (EMA) of the trained weights."]
    known = _training_rows(config, record)
    training = [f"| {name} | {value} |" for name, value in known if value not in (None, "")]
    sections = [
        f"# {repo_id.rpartition('/')[2]}",
        f"A robot policy: {kind}, which maps observations to actions.",
        *(averaged if is_average else []),
        f"## Inputs and outputs\n\n{_feature_table(config)}",
        "\n".join(["## Training\n", "|  |  |", "|---|---|", *training]),
        f"## Use\n\n{_usage(repo_id)}",
    ]
    return f"---\n{front}---\n\n" + "\n\n".join(sections) + "\n"


def _front_matter(config: TrainConfig, facts: Facts) -> dict[str, Any]:
    policy = config.policy
    assert policy is not None
    tags = dict.fromkeys([policy.type, "robotics", "lerobot", "manyhands", *(policy.tags or [])])
    stated = {"license": policy.license} if policy.license else {}
    datasets = published_datasets(config.dataset, facts)
    return {
        "library_name": "lerobot",
        "pipeline_tag": "robotics",
        "model_name": policy.type,
        **stated,
        **({"datasets": datasets} if datasets else {}),
        "tags": list(tags),
    }


def published_datasets(dataset: DatasetConfig, facts: Facts) -> list[str]:
    """Hub names of the datasets; local folders are skipped."""
    folders = facts.get("dataset", {}).get("root", "").split(", ")
    named = [dataset.repo_id] if dataset.mix is None else list(dataset.mix)
    return [name for name in named if name and _HUB_NAME.fullmatch(name) and name not in folders]


def _feature_table(config: TrainConfig) -> str:
    policy = config.policy
    assert policy is not None
    groups = [("reads", policy.input_features), ("predicts", policy.output_features)]
    lines = [
        f"| {verb} | `{name}` | {feature.type.value} | {' x '.join(map(str, feature.shape))} |"
        for verb, features in groups
        for name, feature in features.items()
    ]
    return "\n".join(["|  | feature | kind | size |", "|---|---|---|---|", *lines])


def _training_rows(config: TrainConfig, record: TrainingRecord) -> Iterator[tuple[str, Any]]:
    assert config.policy is not None
    facts = record.facts
    data, batch, model, versions = (
        facts.get(name, {}) for name in ("dataset", "batch", "policy", "versions")
    )
    names = published_datasets(config.dataset, facts)
    yield "dataset", ", ".join(f"[{name}]({_DATASETS}/{name})" for name in names)
    yield "episodes", _count(data.get("num_episodes"))
    yield "frames", _count(data.get("num_frames"))
    yield "frames per second", f"{data['fps']:g}" if data.get("fps") is not None else None
    yield "dataset fingerprint", data.get("fingerprint")
    origin = config.policy.pretrained_path
    yield "pretrained weights", origin and (origin.name if origin.is_absolute() else str(origin))
    yield "parameters", _count(model.get("num_parameters"))
    yield "optimizer steps", _count(record.step)
    yield "samples per step", _batch_line(batch)
    if config.optimizer is not None:
        lr = config.optimizer.lr * batch.get("lr_factor", 1)
        yield "optimizer", f"{config.optimizer.type}, lr {lr:g}"
    yield "precision", facts.get("precision")
    yield "seed", config.seed
    yield "final loss", record.last("loss")
    yield "final held-out loss", record.last("held_out_loss")
    yield "final held-out loss of the EMA", record.last("held_out_loss_ema")
    yield "versions", ", ".join(f"{name} {each}" for name, each in versions.items())


def _batch_line(batch: Facts) -> str | None:
    if "effective" not in batch:
        return None
    parts = (batch["per_process"], batch["processes"], batch["accumulation"])
    split = "{} per process x {} processes x {} accumulation".format(*parts)
    most = "" if batch.get("is_even", True) else "at most "
    return f"{batch['effective']} ({most}{split})"


def _count(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"


def _usage(repo_id: str) -> str:
    return f"""With manyhands, raw values in and raw actions out:

```python
import manyhands

policy = manyhands.load_policy("{repo_id}")
policy.reset()  # when an episode begins
action = policy.select_action(observation)  # the features above, each with a leading sample axis
```

Its success rate in simulation:

```bash
manyhands eval --policy.path={repo_id} --env.type=...
```

With LeRobot, in simulation or on a robot:

```bash
lerobot-eval --policy.path={repo_id} --env.type=... --eval.n_episodes=50
lerobot-record --policy.path={repo_id} --robot.type=... --dataset.repo_id=...
```

To train it further on other data:

```bash
manyhands train --policy.path={repo_id} --dataset.repo_id=...
```"""
