"""Runs of a tiny SmolVLA, and the mistakes that end one before it begins."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from manyhands.config.resolve import read_train_config
from manyhands.data.dataset import open_dataset
from manyhands.data.policy_reading import windows_of
from manyhands.errors import CheckpointError, ConfigError, UserError, WeightsUnavailable
from manyhands.evaluation.open_loop import OpenLoop, joined_errors, rank_errors
from manyhands.policies.load import load_policy
from manyhands.training.start import run_training

FSDP = ("--parallelism.dp_shard=-1",)
TASKS = ("pick up the cube", "stack")


@pytest.fixture
def flags_of(task_dataset, tiny_smolvla):
    """Flags of a run, fresh or of a start of its own."""

    def flags(*own: str, start: tuple[str, ...] | None = None) -> list[str]:
        common = ("--policy.device=cpu", "--num_workers=0", "--batch_size=4", "--log_freq=1")
        where = (f"--dataset.root={task_dataset}",)
        return [*where, *(tiny_smolvla if start is None else start), *common, *own]

    return flags


@pytest.fixture
def train(flags_of, tmp_path):
    """Trains with flags of its own in a folder, for which it returns its path."""

    def run(name: str, *flags: str, start: tuple[str, ...] | None = None) -> Path:
        where = f"--output_dir={tmp_path / name}"
        run_training(read_train_config([where, *flags_of(*flags, start=start)]))
        return tmp_path / name

    return run


def test_a_run_that_is_resumed_ends_as_one_that_was_not(train, weights, tmp_path):
    whole = weights(train("whole", "--steps=4", "--policy.scheduler_decay_steps=4"))
    train("parts", "--steps=4", "--save_freq=2", "--policy.scheduler_decay_steps=4")
    checkpoint = tmp_path / "parts/checkpoints/000002"
    shutil.copytree(checkpoint, tmp_path / "half/checkpoints/000002")
    run_training(read_train_config([f"--resume={tmp_path / 'half'}", "--num_workers=0"]))
    resumed = weights(tmp_path / "half")
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())


@pytest.fixture
def two_types(tiny_vlm, tmp_path) -> str:
    """A flag for a model whose words are read in bf16."""
    folder = shutil.copytree(tiny_vlm, tmp_path / "two_types")
    document = json.loads((folder / "config.json").read_text())
    document["text_config"]["dtype"] = "bfloat16"
    (folder / "config.json").write_text(json.dumps(document))
    return f"--policy.vlm_model_name={folder}"


SPREAD = {"ddp": (2, ()), "fsdp": (2, FSDP)}
SPREAD_FURTHER = {**SPREAD, "ddp4": (4, ()), "fsdp4": (4, FSDP)}
TEXT_TOO = "--policy.train_expert_only=false"
RECOMPUTED = "--policy.gradient_checkpointing=true"


@pytest.mark.process
@pytest.mark.parametrize(
    ("own", "spread"),
    [
        pytest.param((), SPREAD, id="expert"),
        pytest.param((), SPREAD_FURTHER, id="expert, further", marks=pytest.mark.exact),
        pytest.param((TEXT_TOO, RECOMPUTED), SPREAD_FURTHER, id="text", marks=pytest.mark.exact),
    ],
)
def test_a_strategy_does_not_change_losses(flags_of, in_ranks, tmp_path, metrics, own, spread):
    flags = flags_of("--steps=4", "--dtype=float64", "--save_checkpoint=false", *own)
    cases = {"alone": (1, ()), **spread}
    in_ranks(
        [
            (number, tmp_path / name, [*flags, f"--batch_size={4 // number}", *strategy])
            for name, (number, strategy) in cases.items()
        ]
    )
    alone = {step: row["loss"] for step, row in metrics(tmp_path / "alone").items()}
    assert len(alone) == 4
    for name in spread:
        found = {step: row["loss"] for step, row in metrics(tmp_path / name).items()}
        assert found == pytest.approx(alone, rel=1e-9), name


@pytest.mark.exact
@pytest.mark.process
def test_weights_of_two_types_are_sharded_and_resumed(
    flags_of, in_ranks, tmp_path, metrics, weights, two_types
):
    alone, whole, half = (tmp_path / name for name in ("alone", "whole", "half"))
    flags = flags_of(two_types, "--steps=4", "--policy.scheduler_decay_steps=4")
    in_ranks([(1, alone, flags), (2, whole, [*flags, "--batch_size=2", "--save_freq=2", *FSDP])])
    shutil.copytree(whole / "checkpoints/000002", half / "checkpoints/000002")
    in_ranks([(2, half, [f"--resume={half}"])])
    found, expected = (metrics(each)[4]["loss"] for each in (whole, alone))
    assert found == pytest.approx(expected, rel=1e-3)
    resumed = weights(half)
    assert {each.dtype for each in resumed.values()} == {torch.float32, torch.bfloat16}
    assert all(torch.equal(resumed[name], value) for name, value in weights(whole).items())


def test_only_the_expert_and_the_ways_in_and_out_are_changed(train, weights):
    first = weights(train("one", "--steps=1", "--optimizer.lr=1e-30"))
    last = weights(train("two", "--steps=2", "--optimizer.lr=1e-3"))
    changed = {name for name, value in last.items() if not torch.equal(value, first[name])}
    assert changed and not any(".vlm." in name for name in changed)


def test_micro_batches_make_the_same_update(train, metrics):
    runs = [
        train(f"parts{n}", "--steps=2", f"--batch_size={4 // n}", *accumulated(n)) for n in (1, 2)
    ]
    first, second = (metrics(run) for run in runs)
    for step in (1, 2):
        assert first[step]["loss"] == pytest.approx(second[step]["loss"], rel=1e-5)
        assert first[step]["grad_norm"] == pytest.approx(second[step]["grad_norm"], rel=1e-4)


def accumulated(number: int) -> tuple[str, ...]:
    return ("--global_batch_size=4",) if number > 1 else ()


def test_weights_of_two_types_are_trained_saved_and_loaded(train, tiny_vlm, tmp_path):
    base = train("base", "--steps=1")
    vlm = shutil.copytree(tiny_vlm, tmp_path / "vlm")
    from safetensors.torch import load_file, save_file

    saved = load_file(base / "checkpoints/last/pretrained_model/model.safetensors")
    place = "model.vlm_with_expert.vlm."
    parts = {name.removeprefix(place): each for name, each in saved.items() if place in name}
    save_file(parts, vlm / "model.safetensors")
    flags = (f"--policy.vlm_model_name={vlm}", "--policy.load_vlm_weights=true")
    run = train("loaded", "--steps=2", *flags, "--policy.random_vlm=false", "--ema.enable=true")
    network = load_policy(run, device="cpu").network
    for name, value in network.state_dict().items():
        is_full = place not in name and ("lm_expert" not in name or "layers.1.self_attn.k" in name)
        if place in name:
            assert torch.equal(value, saved[name].bfloat16())
        assert (value.dtype is torch.float32) or not is_full


def test_a_policy_goes_on_with_a_camera_that_is_empty(train):
    run = train("base", "--steps=1", "--policy.empty_cameras=1")
    again = train("again", "--steps=1", start=(f"--policy.path={run}",))
    policy = load_policy(again, device="cpu")
    assert "observation.images.empty_camera_0" in policy.config.input_features
    state, picture = torch.zeros(2, 4), torch.zeros(2, 3, 24, 32, dtype=torch.uint8)
    observation = {"observation.state": state, "observation.images.top": picture}
    assert policy.select_action(observation | {"task": list(TASKS)}).shape == (2, 3)
    with pytest.raises(UserError, match="must contain task, one string per sample"):
        policy.predict_action_chunk(observation)


@pytest.mark.parametrize(
    ("flags", "fault", "told"),
    [
        (["--policy.random_vlm=false"], ConfigError, "frozen with random weights"),
        (
            ["--policy.max_state_dim=3"],
            ConfigError,
            "has 4 values, more than --policy.max_state_dim",
        ),
        (["--policy.max_action_dim=2"], ConfigError, "3 values, more than --policy.max_action_dim"),
        (["--policy.vlm_model_name=me/vlm"], WeightsUnavailable, "set --policy"),
        (
            ["--policy.load_vlm_weights=true", "--policy.random_vlm=false"],
            WeightsUnavailable,
            r"lacks weights model\.safetensors\. Add them",
        ),
    ],
    ids=str,
)
def test_mistakes_are_told_before_training(train, flags, fault, told):
    with pytest.raises(fault, match=told) as caught:
        train("run", "--steps=1", *flags)
    assert caught.value.exit_code == 2


def test_a_missing_tokenizer_is_told_before_training(train, tiny_vlm, tmp_path):
    folder = shutil.copytree(tiny_vlm, tmp_path / "vlm")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(WeightsUnavailable, match=r"tokenizer\.json is missing\. Add it"):
        train("run", "--steps=1", f"--policy.vlm_model_name={folder}")


def test_weights_of_another_size_are_told_by_name(train):
    run = train("base", "--steps=1")
    larger = (f"--policy.path={run}", "--policy.max_state_dim=9")
    with pytest.raises(
        CheckpointError, match=r"model\.state_proj\.weight \(48x8 in the file, 48x9"
    ):
        train("run", "--steps=1", start=larger)


LORA = ("--peft.method_type=LORA", "--peft.r=2", "--optimizer.lr=0.01")
EXACT = ("--cudnn_deterministic=true", "--accelerator.mixed_precision=no", "--steps=12")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
class TestOnAGpu:
    """What only a real device can show."""

    @pytest.mark.parametrize(
        "own",
        [(), (TEXT_TOO,), (TEXT_TOO, RECOMPUTED), ("--cache.vision_tokens=true",)],
        ids=["expert", "text", "recomputed", "tokens"],
    )
    def test_recorded_runs_are_those_of_one_operation_at_a_time(self, train, weights, capsys, own):
        flags = (*EXACT, *own, "--policy.device=cuda")
        eager, graph = (
            weights(train(mode, f"--step.mode={mode}", *flags)) for mode in ("eager", "graph")
        )
        assert "NOTE: updates" not in capsys.readouterr().out
        assert all(torch.equal(graph[name], value) for name, value in eager.items())

    def test_adapters_are_recorded_too(self, train, capsys):
        flags = (*EXACT, *LORA, "--policy.device=cuda")
        start = (f"--policy.path={train('base', '--steps=1')}",)
        eager, graph = (
            load_file(
                train(mode, f"--step.mode={mode}", *flags, start=start)
                / "checkpoints/last/pretrained_model/adapter_model.safetensors"
            )
            for mode in ("eager", "graph")
        )
        assert "NOTE: updates" not in capsys.readouterr().out
        assert all(torch.equal(graph[name], value) for name, value in eager.items())


def test_it_is_evaluated_on_the_tasks_that_were_recorded(train, task_dataset):
    run_dir = train("run", "--steps=1")
    policy = load_policy(run_dir, "cpu")
    dataset = open_dataset(root=task_dataset, windows=windows_of(policy.config))
    rows, open_loop = np.arange(dataset.num_frames), OpenLoop(policy, dataset, seed=1)
    alone = joined_errors([rank_errors(open_loop, rows, 0, 1)])
    three = joined_errors([rank_errors(open_loop, rows, rank, 3) for rank in range(3)])
    assert alone.overall() == three.overall()
    assert alone.counts.tolist()[:2] == [16, 14]
