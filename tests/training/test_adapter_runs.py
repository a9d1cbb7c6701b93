"""Runs that train adapters alone: what they change, save, resume, and how they may be spread."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from manyhands.checkpoint.convert import gather_checkpoint, merge_adapters
from manyhands.config.resolve import read_train_config
from manyhands.errors import CheckpointError, ConfigError, UserError
from manyhands.policies.load import load_policy
from manyhands.training.setup import assemble
from manyhands.training.setup.assemble import make_learner
from manyhands.training.start import run_training
from manyhands.training.step.train_step import StepInputs
from manyhands.training.step.trial import kernel_facts

pytest.importorskip("peft", reason="pip install 'manyhands[smolvla]'")

POLICY = Path("checkpoints/last/pretrained_model")
ADAPTERS = POLICY / "adapter_model.safetensors"
COMMON = ("--policy.device=cpu", "--num_workers=0", "--batch_size=4", "--log_freq=1")
SHARDS = ("--parallelism.dp_shard=-1", "--checkpoint_format=dcp")
LORA = ("--peft.method_type=LORA", "--peft.r=2", "--optimizer.lr=0.01")
EXPERT_LAYERS = r"--peft.target_modules=.*lm_expert.*[qv]_proj"
ACT_LAYERS = ("--peft.target_modules=[linear1,action_head]", "--policy.dropout=0")


@pytest.fixture(scope="module")
def base(tmp_path_factory, task_dataset, tiny_smolvla) -> Path:
    """A tiny SmolVLA to start from."""
    run_dir = tmp_path_factory.mktemp("base") / "run"
    flags = (f"--dataset.root={task_dataset}", f"--output_dir={run_dir}", "--steps=1")
    run_training(read_train_config([*flags, *tiny_smolvla, *COMMON]))
    return run_dir


@pytest.fixture
def argv(base, task_dataset) -> Callable[..., list[str]]:
    """Flags of a run that starts from a policy, usually the tiny SmolVLA."""

    def flags(*more: str, path: Path = base) -> list[str]:
        return [f"--dataset.root={task_dataset}", f"--policy.path={path}", *COMMON, *more]

    return flags


@pytest.fixture
def train(argv, tmp_path) -> Callable[..., Path]:
    """Trains in a folder, for which it returns its path."""

    def run(name: str, *flags: str, **start: Path) -> Path:
        folder = f"--output_dir={tmp_path / name}"
        run_training(read_train_config(argv(folder, *flags, **start)))
        return tmp_path / name

    return run


def document(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text())


def chunk_of(path: Path) -> torch.Tensor:
    """What a saved SmolVLA does about one observation."""
    policy = load_policy(path, device="cpu")
    made = torch.Generator().manual_seed(0)
    observation = {
        "observation.state": torch.randn(2, 4, generator=made),
        "observation.images.top": torch.rand(2, 3, 24, 32, generator=made),
        "task": ["stack", "pick up the cube"],
    }
    noise = torch.randn(2, 4, 6, generator=made)
    return policy.predict_action_chunk(observation, {"sampling_noise": noise})


def test_a_checkpoint_holds_adapters_and_names_the_policy_below(train, base):
    run = train("run", "--steps=2", *LORA, "--peft.lora_alpha=4")
    files = {file.name for file in (run / POLICY).iterdir()}
    assert "model.safetensors" not in files and "adapter_model.safetensors" in files
    settings = document(run / POLICY / "adapter_config.json")
    assert settings["base_model_name_or_path"] == str((base / POLICY).resolve())
    assert (settings["r"], settings["lora_alpha"], settings["peft_type"]) == (2, 4, "LORA")
    assert document(run / POLICY / "config.json")["use_peft"] is True
    told = document(run / POLICY / "train_config.json")
    assert (told["peft"]["r"], told["policy"]["use_peft"]) == (2, True)
    saved = load_file(run / ADAPTERS)
    places = {
        name.removeprefix("base_model.model.model.").rpartition(".lora_")[0] for name in saved
    }
    heads = {"state_proj", "action_in_proj", "action_out_proj"}
    heads |= {"action_time_mlp_in", "action_time_mlp_out"}
    layers = {
        f"vlm_with_expert.lm_expert.layers.{number}.self_attn.{name}_proj"
        for number in (0, 1)
        for name in "qv"
    }
    assert places == heads | layers
    trained = load_file(run / "checkpoints/last/training_state/optimizer_state.safetensors")
    assert len([name for name in trained if name.endswith("exp_avg")]) == len(saved)
    assert not torch.allclose(chunk_of(run), chunk_of(base), atol=1e-4)


def test_a_run_that_is_resumed_ends_as_one_that_was_not(train, tmp_path):
    flags = (*LORA, "--steps=4", "--ema.enable=true", "--peft.full_training_modules=[state_proj]")
    flags += (EXPERT_LAYERS,)
    whole = train("whole", *flags)
    parts = train("parts", *flags, "--save_freq=2")
    shutil.copytree(parts / "checkpoints/000002", tmp_path / "half/checkpoints/000002")
    run_training(read_train_config([f"--resume={tmp_path / 'half'}", "--num_workers=0"]))
    for ending in ("", "_ema"):
        file = f"checkpoints/last/pretrained_model{ending}/adapter_model.safetensors"
        before, after = load_file(whole / file), load_file(tmp_path / "half" / file)
        assert before.keys() == after.keys()
        assert "base_model.model.model.state_proj.weight" in before
        assert all(torch.equal(after[name], value) for name, value in before.items())
    with pytest.raises(ConfigError, match=r"--peft\.r=3 cannot change when resuming"):
        read_train_config([f"--resume={tmp_path / 'half'}", "--peft.r=3"])


@pytest.fixture
def spread(argv, tmp_path, in_ranks):
    """Trains by one process and by others; returns the losses by run, those of one first."""

    def train(**others: tuple[int, tuple[str, ...]]) -> list[dict[int, float]]:
        flags = argv(*LORA, "--steps=4", "--global_batch_size=4", "--dtype=float64")
        flags.remove("--batch_size=4")
        runs = {"one": (1, ()), **others}
        in_ranks(
            [
                (number, tmp_path / name, [*flags, "--save_freq=2", *more])
                for name, (number, more) in runs.items()
            ]
        )
        return [losses_of(tmp_path / name) for name in runs]

    return train


@pytest.mark.exact
@pytest.mark.process
def test_ranks_train_adapters_as_one_does_and_save_them_alone(spread, tmp_path, in_ranks):
    losses, *others = spread(ddp=(2, ()), fsdp=(2, SHARDS))
    assert others == [pytest.approx(losses, rel=1e-9)] * 2
    half = tmp_path / "half"
    shutil.copytree(tmp_path / "fsdp/checkpoints/000002", half / "checkpoints/000002")
    in_ranks([(2, half, [f"--resume={half}", "--num_workers=0"])])
    assert losses_of(half)[4] == pytest.approx(losses[4], rel=1e-9)
    with pytest.raises(CheckpointError, match="convert --checkpoint"):
        load_policy(half)
    (file,) = gather_checkpoint(half)
    assert file == (half / ADAPTERS).parent.resolve() / ADAPTERS.name
    gathered, alone = load_file(file), load_file(tmp_path / "one" / ADAPTERS)
    assert gathered.keys() == alone.keys()
    torch.testing.assert_close(gathered, alone, rtol=1e-6, atol=1e-9)
    size = sum(value.nbytes for value in alone.values())
    for folder in ("training_state/shards", "training_state", "pretrained_model"):
        for each in (half / "checkpoints/last" / folder).glob("*.safetensors"):
            assert each.stat().st_size < 4 * size + 50_000


@pytest.mark.exact
@pytest.mark.process
def test_four_ranks_and_two_devices_of_one_train_adapters_as_one_does(spread):
    devices = ("--parallelism.gpus_per_process=2",)
    losses, *others = spread(ddp=(4, ()), fsdp=(4, SHARDS), dp=(1, devices))
    assert others == [pytest.approx(losses, rel=1e-9)] * 3


def losses_of(run_dir: Path) -> dict[int, float]:
    rows = map(json.loads, (run_dir / "metrics.jsonl").read_text().splitlines())
    return {row["step"]: row["loss"] for row in rows}


def test_merged_adapters_do_what_they_did_apart(train, tmp_path, base):
    whole = "--peft.full_training_modules=[action_out_proj]"
    run = train("run", "--steps=2", *LORA, EXPERT_LAYERS, whole)
    config = run / POLICY / "config.json"
    config.write_text(json.dumps(document(config) | {"device": "cuda"}))
    file = merge_adapters(run, tmp_path / "merged")
    merged = document(tmp_path / "merged/config.json")
    assert (merged["use_peft"], merged["device"]) == (False, "cuda")
    assert {each.name for each in (tmp_path / "merged").iterdir()}.isdisjoint(
        {"adapter_config.json", "adapter_model.safetensors"}
    )
    assert load_file(file).keys() == load_file(base / POLICY / "model.safetensors").keys()
    apart, together = chunk_of(run), chunk_of(tmp_path / "merged")
    torch.testing.assert_close(together, apart, rtol=0, atol=1e-5)
    assert not torch.allclose(together, chunk_of(base), atol=1e-4)


def test_adapters_are_trained_further_where_they_are_started_from(train, base):
    first = train("first", "--steps=2", *LORA)
    second = train("second", "--steps=1", "--optimizer.lr=1e-30", path=first)
    before, after = load_file(first / ADAPTERS), load_file(second / ADAPTERS)
    assert all(torch.equal(after[name], value) for name, value in before.items())
    settings = document(second / POLICY / "adapter_config.json")
    assert settings["base_model_name_or_path"] == str((base / POLICY).resolve())
    with pytest.raises(ConfigError, match="already has adapters"):
        train("third", "--steps=1", *LORA, path=first)


def test_a_policy_below_that_is_gone_is_named(train, base, tmp_path):
    moved = shutil.copytree(base / POLICY, tmp_path / "moved")
    run = train("run", "--steps=2", *LORA, path=moved)
    moved.rename(tmp_path / "elsewhere")
    for use in (load_policy, lambda path: run_training(read_train_config(resumed(path)))):
        with pytest.raises(CheckpointError, match=rf"base policy {moved}.*a link is enough"):
            use(run)
    moved.symlink_to(tmp_path / "elsewhere")
    load_policy(run)


def resumed(run_dir: Path) -> list[str]:
    return [f"--resume={run_dir}", "--steps=3", "--num_workers=0"]


def test_any_policy_can_be_adapted(command, tmp_path):
    base, run = tmp_path / "base", tmp_path / "run"
    run_training(read_train_config(command.argv(base, "--steps=1")))
    flags = [flag for flag in command.argv(run, "--steps=2", *LORA) if "policy.type" not in flag]
    with pytest.raises(ConfigError, match=r"Set --peft\.target_modules"):
        read_train_config([*flags, f"--policy.path={base}"])
    run_training(read_train_config([*flags, f"--policy.path={base}", *ACT_LAYERS]))
    saved = load_file(run / ADAPTERS)
    assert all(".linear1.lora_" in name or ".action_head.lora_" in name for name in saved)
    load_policy(run)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--peft.target_modules=[q_proj,qq]"], "the policy has no layer qq"),
        (
            ["--peft.full_training_modules=[head]"],
            "full_training_modules: the policy has no layer head",
        ),
        (["--peft.target_modules=q_proj"], "layers are .*action_in_proj"),
        (["--peft.method_type=VERA"], "method_type=VERA is not supported by manyhands; use LORA"),
    ],
    ids=str,
)
def test_mistakes_are_told_before_training(train, flags, told):
    with pytest.raises(UserError, match=told):
        train("run", "--steps=1", *flags)


def test_batch_norms_are_refused(command, tmp_path, camera_dataset, tiny_diffusion):
    norms = ("--policy.pretrained_backbone_weights=null", "--policy.use_group_norm=false")
    norms += ("--policy.crop_shape=[28, 28]", "--policy.spatial_softmax_num_keypoints=4")
    base = [f"--dataset.root={camera_dataset}", f"--output_dir={tmp_path / 'base'}", "--steps=1"]
    run_training(read_train_config([*base, *tiny_diffusion, *norms]))
    flags = [f"--policy.path={tmp_path / 'base'}", "--policy.device=cpu", "--num_workers=0"]
    flags += [f"--dataset.root={camera_dataset}", f"--output_dir={tmp_path / 'run'}", "--steps=1"]
    with pytest.raises(ConfigError, match="batch norms such as"):
        run_training(read_train_config([*flags, r"--peft.target_modules=.*cond_encoder\.1"]))


@pytest.mark.exact
@pytest.mark.process
def test_adapters_learn_in_full_precision_over_weights_in_a_lower_one(argv, tmp_path, in_ranks):
    lower = ("--policy.load_vlm_weights=true", "--steps=3", "--global_batch_size=4")
    flags = argv(*LORA, *lower, "--peft.full_training_modules=[layers.0.self_attn.o_proj]")
    flags.remove("--batch_size=4")
    spread = {"one": (1, ()), "ddp": (2, ()), "fsdp": (2, ("--parallelism.dp_shard=-1",))}
    in_ranks([(each[0], tmp_path / name, [*flags, *each[1]]) for name, each in spread.items()])
    for name in spread:
        saved = load_file(tmp_path / name / ADAPTERS).values()
        assert {each.dtype for each in saved} == {torch.float32}
        assert losses_of(tmp_path / name) == pytest.approx(losses_of(tmp_path / "one"), rel=1e-2)
    network = load_policy(tmp_path / "fsdp", device="cpu").network
    assert torch.bfloat16 in {each.dtype for each in network.parameters()}


def test_a_resumed_run_looks_for_the_verdict_that_the_first_one_stored(argv, tmp_path, monkeypatch):
    found = []

    def noted(*given):
        learner = make_learner(*given)
        found.append(kernel_facts(learner.config, learner.step, StepInputs({}, {})))
        return learner

    monkeypatch.setattr(assemble, "make_learner", noted)
    flags = argv(*LORA, "--steps=1", f"--output_dir={tmp_path / 'run'}")
    run_training(read_train_config(flags))
    run_training(read_train_config([f"--resume={tmp_path / 'run'}", "--steps=2"]))
    first, resumed = found
    assert first == resumed
