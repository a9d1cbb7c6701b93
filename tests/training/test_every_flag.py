"""Each flag of `manyhands train`, set on the command line, changes something one can see.

What is seen is taken from the policy, optimizer and schedule that are built where the flag only
configures them, from a real run of a few updates where it acts on a run, and from the refusal where
this machine or this policy can meet only one value.
"""

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import load_file

from manyhands.config.resolve import read_train_config
from manyhands.config.schema.decoding import flags_of
from manyhands.config.train import TrainConfig
from manyhands.errors import UserError
from manyhands.parallel.world import joined_world
from manyhands.policies.load import load_policy
from manyhands.training.setup.assemble import assemble
from manyhands.training.start import run_training
from manyhands.training.step.learner import Learner

HELD_OUT = "--dataset.eval_split=0.25"
SGD = "--optimizer.type=sgd --optimizer.lr=0.01"
EMA = "--ema.enable=true"
COSINE = "--scheduler.type=cosine_decay_with_warmup --scheduler.num_warmup_steps=0"


class Run:
    """A finished run and what it left behind."""

    def __init__(self, run_dir: Path) -> None:
        self.dir = run_dir
        self.rows = [json.loads(row) for row in (run_dir / "metrics.jsonl").open()]
        self.facts = json.loads((run_dir / "run.json").read_text())

    @property
    def checkpoint(self) -> Path:
        return self.dir / "checkpoints" / "last"

    def losses(self) -> list[float]:
        return [row["loss"] for row in self.rows]

    def weights(self, folder: str = "pretrained_model") -> dict[str, list[float]]:
        tensors = load_file(self.checkpoint / folder / "model.safetensors")
        return {name: tensor.flatten().tolist() for name, tensor in tensors.items()}

    def average(self) -> dict[str, list[float]]:
        return self.weights("pretrained_model_ema")

    def actions(self) -> list[float]:
        policy = load_policy(self.checkpoint)
        torch.manual_seed(0)
        features = policy.config.input_features.items()
        return [
            float(
                policy.select_action(
                    {name: torch.full((1, *each.shape), tick / 2) for name, each in features}
                ).sum()
            )
            for tick in range(4)
        ]

    def checkpoints(self) -> list[str]:
        return sorted(path.name for path in (self.dir / "checkpoints").iterdir())


class Built(NamedTuple):
    """A look at what is built for a run before its first update."""

    look: Callable[[Learner], object]


Look = Callable[[Run], object] | Built


def config_entry(name: str) -> Built:
    return Built(lambda learner: getattr(learner.policy.config, name))


def group_entry(name: str, number: int = 0) -> Built:
    return Built(lambda learner: learner.optimizer.param_groups[number][name])


def shapes_of(learner: Learner) -> dict[str, list[int]]:
    return {name: [*value.shape] for name, value in learner.policy.network.state_dict().items()}


def rates_of(learner: Learner) -> list[float]:
    rates = []
    for step in range(learner.config.num_steps):
        learner.begin_step(step)
        rates.append(learner.lr)
    return rates


SHAPES, RATES = Built(shapes_of), Built(rates_of)

EFFECTS: dict[str, tuple[str, str, Look]] = {
    # flag: (value, other flags that both runs have, what must differ)
    "accelerator.gradient_accumulation.steps": ("2", "", lambda run: run.facts["batch"]),
    "accelerator.mixed_precision": ("bf16", "", lambda run: run.facts["precision"]),
    "profile": ("1:1", "", lambda run: (run.dir / "profile").exists()),
    "audit": ("true", "", lambda run: (run.dir / "audit").exists()),
    "batch_size": ("3", "", lambda run: run.facts["batch"]),
    "cudnn_deterministic": ("true", "", lambda run: run.facts["precision"]),
    "dataset.episodes": ("[0, 2]", "", lambda run: run.facts["dataset"]["num_frames"]),
    "dataset.eval_split": ("0.25", "", lambda run: run.facts["dataset"]["num_frames"]),
    "dataset.exclude_episodes": ("[1]", "", lambda run: run.facts["dataset"]["num_frames"]),
    "dtype": ("float64", "", lambda run: run.facts["precision"]),
    "ema.decay": ("0.9", EMA, Run.average),
    "ema.enable": ("true", "", lambda run: (run.checkpoint / "pretrained_model_ema").exists()),
    "ema.inv_gamma": ("2", EMA, Run.average),
    "ema.max_decay": ("0.1", EMA, Run.average),
    "ema.min_decay": ("0.9", EMA, Run.average),
    "ema.power": ("0.5", EMA, Run.average),
    "ema.update_after_step": ("1", EMA, Run.average),
    "ema.use_for_eval": (
        "false",
        f"{EMA} {HELD_OUT} --eval_steps=2",
        lambda run: "held_out_loss_ema" in run.rows[-1],
    ),
    "eval_steps": ("1", HELD_OUT, lambda run: ["held_out_loss" in row for row in run.rows]),
    "global_batch_size": ("5", "", lambda run: run.facts["batch"]),
    "job_name": ("grasp", "", lambda run: run.facts["job_name"]),
    "log_freq": ("1", "--steps=3", lambda run: [row["step"] for row in run.rows]),
    "max_eval_samples": (
        "1",
        f"{HELD_OUT} --eval_steps=2",
        lambda run: run.rows[-1]["held_out_loss"],
    ),
    "optimizer.betas": ("[0.5, 0.5]", "", Run.weights),
    "optimizer.dampening": ("0.5", f"{SGD} --optimizer.momentum=0.9", Run.weights),
    "optimizer.eps": ("0.1", "", Run.weights),
    "optimizer.grad_clip_norm": ("0.01", SGD, Run.weights),
    "optimizer.lr": ("0.1", "", RATES),
    "optimizer.momentum": ("0.9", SGD, Run.weights),
    "optimizer.nesterov": ("true", f"{SGD} --optimizer.momentum=0.9", Run.weights),
    "optimizer.type": ("adam", "", group_entry("decoupled_weight_decay")),
    "optimizer.weight_decay": ("0.5", "", Run.weights),
    "parallelism.gpus_per_process": ("2", "", lambda run: run.facts["strategy"]),
    "policy.chunk_size": ("8", "", SHAPES),
    "policy.dim_feedforward": ("48", "", SHAPES),
    "policy.dim_model": ("32", "", SHAPES),
    "policy.dropout": ("0.5", "", Run.losses),
    "policy.feedforward_activation": ("gelu", "", Run.losses),
    "policy.input_features": (
        '{"observation.state": {"type": "STATE", "shape": [3]}, '
        '"observation.environment_state": {"type": "ENV", "shape": [4]}}',
        "",
        Built(lambda learner: list(learner.policy.config.input_features)),
    ),
    "policy.kl_weight": ("1", "", Run.losses),
    "policy.latent_dim": ("8", "", SHAPES),
    "policy.license": ("mit", "", config_entry("license")),
    "policy.n_action_steps": ("2", "", Run.actions),
    "policy.n_decoder_layers": ("2", "", SHAPES),
    "policy.n_encoder_layers": ("2", "", SHAPES),
    "policy.n_heads": ("4", "", Run.losses),
    "policy.n_vae_encoder_layers": ("2", "", SHAPES),
    "policy.normalization_mapping": ('{"ENV": "MEAN_STD"}', "", Run.losses),
    "policy.optimizer_lr": ("0.5", "", RATES),
    "policy.optimizer_lr_backbone": ("0.5", "", group_entry("lr", 1)),
    "policy.optimizer_weight_decay": ("0.5", "", Run.weights),
    "policy.pre_norm": ("true", "", SHAPES),
    "policy.private": ("true", "", config_entry("private")),
    "policy.repo_id": ("me/mine", "", config_entry("repo_id")),
    "policy.tags": ('["a"]', "", config_entry("tags")),
    "policy.temporal_ensemble_coeff": ("0.5", "--policy.n_action_steps=1", Run.actions),
    "policy.use_amp": ("true", "", lambda run: run.facts["precision"]),
    "policy.use_vae": ("false", "", SHAPES),
    "scaling.base_batch_size": ("4", "--scaling.lr=linear --scaling.base_batch_size=2", RATES),
    "scaling.lr": ("sqrt", "--scaling.lr=linear --scaling.base_batch_size=2", RATES),
    "save_checkpoint": ("false", "", lambda run: (run.dir / "checkpoints").exists()),
    "save_freq": ("1", "", Run.checkpoints),
    "scheduler.decay_lr": ("0.5", COSINE, RATES),
    "scheduler.name": ("linear", "--scheduler.type=diffuser --steps=4 --log_freq=1", RATES),
    "scheduler.num_decay_steps": ("3", f"{COSINE} --steps=5 --log_freq=1", RATES),
    "scheduler.num_warmup_steps": ("10", "--scheduler.type=constant_with_warmup", RATES),
    "scheduler.peak_lr": ("0.5", COSINE, RATES),
    "scheduler.type": ("diffuser", "", RATES),
    "seed": ("5", "", Run.losses),
    "steps": ("3", "", lambda run: run.rows[-1]["step"]),
    "use_policy_training_preset": (
        "false",
        "--optimizer.type=adamw",
        group_entry("weight_decay"),
    ),
}

DIFFUSION_EFFECTS: dict[str, tuple[str, str, Look]] = {
    "policy.beta_end": ("0.5", "--policy.beta_schedule=linear", Run.losses),
    "policy.beta_schedule": ("linear", "", Run.losses),
    "policy.beta_start": ("0.01", "--policy.beta_schedule=linear", Run.losses),
    "policy.clip_sample": ("false", "", Run.actions),
    "policy.clip_sample_range": ("0.1", "", Run.actions),
    "policy.diffusion_step_embed_dim": ("16", "", SHAPES),
    "policy.do_mask_loss_for_padding": ("true", "", Run.losses),
    "policy.down_dims": ("[16, 8]", "", SHAPES),
    "policy.drop_n_last_frames": ("0", "", lambda run: run.facts["batch"]),
    "policy.horizon": ("16", "", Run.losses),
    "policy.kernel_size": ("3", "", SHAPES),
    "policy.n_groups": ("4", "", Run.losses),
    "policy.n_obs_steps": ("3", "", SHAPES),
    "policy.noise_draws_per_sample": ("2", "", Run.losses),
    "policy.noise_scheduler_type": ("DDIM", "", Run.actions),
    "policy.num_inference_steps": ("5", "", Run.actions),
    "policy.num_train_timesteps": ("50", "", Run.losses),
    "policy.optimizer_betas": ("[0.5, 0.5]", "", group_entry("betas")),
    "policy.optimizer_eps": ("0.1", "", group_entry("eps")),
    "policy.prediction_type": ("sample", "", Run.losses),
    "policy.scheduler_name": ("linear", "--steps=4 --log_freq=1", RATES),
    "policy.scheduler_warmup_steps": ("9", "", RATES),
    "policy.use_film_scale_modulation": ("false", "", SHAPES),
}
"""The same for what only Diffusion Policy has."""

REFUSALS = {
    "accelerator.ddp.find_unused_parameters": ("true", "slows every step"),
    "checkpoint_format": ("dcp", "needs a sharded run"),
    "dataset.repo_id": ("me/none", "me/none"),
    "dataset.revision": ("v9", "v9"),
    "policy.backbone_weights": ("resnet18.pth", "reads no camera"),
    "policy.device": ("cuda:99", "cuda:99"),
    "policy.replace_final_stride_with_dilation": ("1", "resnet50"),
    "policy.type": ("atc", "did you mean act"),
    "policy.use_peft": ("true", "use_peft"),
    "policy.vision_backbone": ("vgg", "resnet18"),
}
"""Values whose visible effect is a refusal that names the fault."""

ELSEWHERE = {
    "accelerator.ddp.gradient_as_bucket_view": "parallel/test_accelerate_engine.py",
    "accelerator.ddp.gradient_compression": "parallel/test_engine.py",
    "accelerator.ddp.static_graph": "parallel/test_accelerate_engine.py",
    "accelerator.fsdp.cpu_offload": "parallel/sharded_world.py",
    "accelerator.fsdp.reshard_after_forward": "parallel/sharded_world.py",
    "accelerator.fsdp.wrap_modules": "parallel/sharded_world.py",
    "parallelism.dp_replicate": "training/test_strategies.py",
    "parallelism.dp_shard": "training/test_strategies.py",
    "cache.encoding": "training/setup/test_data.py",
    "cache.folder": "training/setup/test_data.py",
    "cache.max_disk": "training/setup/test_data.py",
    "cache.mode": "training/setup/test_data.py",
    "cache.vision_tokens": "training/setup/test_vision_tokens.py",
    "dataset.check": "training/setup/test_checks.py",
    "dataset.depth_output_unit": "training/setup/test_data.py",
    "dataset.image_size": "training/setup/test_data.py",
    "dataset.max_bad": "training/setup/test_checks.py",
    "dataset.mix": "training/setup/test_data.py",
    "dataset.on_bad": "training/setup/test_checks.py",
    "max_ram": "training/setup/test_data.py",
    "rename_map": "training/setup/test_data.py",
    "dataloader_multiprocessing_context": "training/setup/test_loading.py",
    "dataset.image_transforms.enable": "training/step/test_learner.py",
    "dataset.image_transforms.max_num_transforms": "training/step/test_learner.py",
    "dataset.image_transforms.random_order": "training/step/test_learner.py",
    "dataset.image_transforms.tfs": "training/step/test_learner.py",
    "dataset.root": "training/setup/test_data.py",
    "env.episode_length": "training/test_evaluation.py",
    "env.fps": "config/test_resolve.py",
    "env.gym_kwargs": "config/test_resolve.py",
    "env.instruction": "config/test_resolve.py",
    "env.observation_keys": "config/test_resolve.py",
    "env.package": "config/test_resolve.py",
    "env.success_key": "config/test_resolve.py",
    "env.task": "config/test_resolve.py",
    "env.type": "training/test_evaluation.py",
    "env.visualization_height": "config/test_resolve.py",
    "env.visualization_width": "config/test_resolve.py",
    "env_eval_freq": "training/test_evaluation.py",
    "eval.async": "training/test_side_evaluation.py",
    "eval.batch_size": "training/test_evaluation.py",
    "eval.expected_success": "training/test_evaluation.py",
    "eval.n_episodes": "training/test_evaluation.py",
    "eval.open_loop": "training/test_held_out_actions.py",
    "eval.timeout_s": "evaluation/test_evaluate.py",
    "eval.use_async_envs": "training/test_evaluation.py",
    "early_stopping_patience": "training/test_early_stopping.py",
    "epochs": "training/setup/test_batch.py",
    "find_batch_size": "training/setup/test_batch_size_search.py",
    "dataset.use_imagenet_stats": "training/setup/test_data.py",
    "keep_best": "checkpoint/test_retention.py",
    "keep_every": "checkpoint/test_retention.py",
    "keep_last": "checkpoint/test_retention.py",
    "launch.gpu_ids": "training/test_spawn.py",
    "launch.machine_rank": "cli/test_command_lines.py",
    "launch.main_address": "cli/test_command_lines.py",
    "launch.main_port": "cli/test_command_lines.py",
    "launch.max_restarts": "training/test_restarts.py",
    "launch.num_machines": "cli/test_command_lines.py",
    "launch.num_processes": "cli/test_train.py",
    "num_workers": "training/setup/test_loading.py",
    "on_nonfinite": "training/health/test_nonfinite_guard.py",
    "output_dir": "training/test_start.py",
    "peft.full_training_modules": "training/test_adapter_runs.py",
    "peft.init_type": "policies/test_adapters.py",
    "peft.lora_alpha": "training/test_adapter_runs.py",
    "peft.method_type": "training/test_adapter_runs.py",
    "peft.r": "training/test_adapter_runs.py",
    "peft.target_modules": "training/test_adapter_runs.py",
    "policy.output_features": "training/setup/test_features.py",
    "policy.crop_is_random": "policies/diffusion/test_network.py",
    "policy.crop_per_sample": "policies/diffusion/test_network.py",
    "policy.crop_ratio": "config/policies/test_diffusion.py",
    "policy.crop_shape": "policies/diffusion/test_network.py",
    "policy.compile_mode": "config/policies/test_diffusion.py",
    "policy.compile_model": "config/policies/test_diffusion.py",
    "policy.gradient_checkpointing": "policies/diffusion/test_network.py",
    "policy.path": "training/setup/test_assemble.py",
    "policy.pretrained_backbone_weights": "training/setup/test_assemble.py",
    "policy.pretrained_path": "config/test_resolve.py",
    "policy.pretrained_revision": "config/files/test_config_files.py",
    "policy.push_to_hub": "policies/test_publish.py",
    "policy.resize_shape": "policies/diffusion/test_encoder.py",
    "policy.spatial_softmax_num_keypoints": "policies/diffusion/test_encoder.py",
    "policy.use_group_norm": "policies/diffusion/test_network.py",
    "policy.use_separate_rgb_encoder_per_camera": "policies/diffusion/test_model.py",
    "policy.adapt_to_pi_aloha": "policies/smolvla/test_network.py",
    "policy.add_image_special_tokens": "policies/smolvla/test_model.py",
    "policy.attention_mode": "policies/smolvla/test_vlm.py",
    "policy.empty_cameras": "policies/smolvla/test_model.py",
    "policy.exact": "policies/smolvla/test_network.py",
    "policy.expert_width_multiplier": "policies/smolvla/test_vlm.py",
    "policy.freeze_vision_encoder": "policies/smolvla/test_network.py",
    "policy.load_vlm_weights": "policies/smolvla/test_vlm_init.py",
    "policy.max_action_dim": "training/test_smolvla_runs.py",
    "policy.max_period": "policies/smolvla/test_model.py",
    "policy.max_state_dim": "training/test_smolvla_runs.py",
    "policy.min_period": "policies/smolvla/test_model.py",
    "policy.num_expert_layers": "policies/smolvla/test_decoder.py",
    "policy.num_steps": "policies/smolvla/test_network.py",
    "policy.num_vlm_layers": "policies/smolvla/test_vlm.py",
    "policy.optimizer_grad_clip_norm": "config/policies/test_smolvla.py",
    "policy.pad_language_to": "policies/test_build.py",
    "policy.prefix_length": "policies/smolvla/test_model.py",
    "policy.random_vlm": "policies/smolvla/test_vlm_init.py",
    "policy.resize_imgs_with_padding": "policies/smolvla/test_images.py",
    "policy.rtc_config.debug": "config/policies/test_smolvla.py",
    "policy.rtc_config.debug_maxlen": "config/policies/test_smolvla.py",
    "policy.rtc_config.enabled": "config/policies/test_smolvla.py",
    "policy.rtc_config.execution_horizon": "config/policies/test_smolvla.py",
    "policy.rtc_config.max_guidance_weight": "config/policies/test_smolvla.py",
    "policy.rtc_config.mode": "config/policies/test_smolvla.py",
    "policy.rtc_config.prefix_attention_schedule": "config/policies/test_smolvla.py",
    "policy.scheduler_decay_lr": "config/policies/test_smolvla.py",
    "policy.scheduler_decay_steps": "config/policies/test_smolvla.py",
    "policy.self_attn_every_n_layers": "policies/smolvla/test_vlm.py",
    "policy.tokenizer_max_length": "policies/test_build.py",
    "policy.train_expert_only": "policies/smolvla/test_network.py",
    "policy.train_state_proj": "policies/smolvla/test_network.py",
    "policy.use_cache": "config/policies/test_smolvla.py",
    "policy.use_delta_joint_actions_aloha": "config/policies/test_smolvla.py",
    "policy.vlm_model_name": "policies/smolvla/test_vlm.py",
    "prefetch_factor": "training/setup/test_loading.py",
    "resume": "training/test_loop.py",
    "step.compile_min_left_s": "training/step/test_auto_compile.py",
    "step.mode": "training/step/test_executors.py",
    "timeout_s": "training/test_failures.py",
    "tensorboard.enable": "training/test_tracking.py",
    "tensorboard.folder": "observe/trackers/test_tensorboard.py",
    "trackio.enable": "training/test_tracking.py",
    "trackio.project": "observe/trackers/test_trackio.py",
    "trackio.space_id": "observe/trackers/test_trackio.py",
    "wandb.add_tags": "observe/trackers/test_wandb.py",
    "wandb.disable_artifact": "observe/trackers/test_wandb.py",
    "wandb.enable": "training/test_tracking.py",
    "wandb.entity": "observe/trackers/test_wandb.py",
    "wandb.mode": "training/test_tracking.py",
    "wandb.notes": "observe/trackers/test_wandb.py",
    "wandb.project": "observe/trackers/test_wandb.py",
    "wandb.run_id": "observe/trackers/test_build.py",
    "samples": "training/setup/test_batch.py",
}
"""Flags whose effect has a test of its own."""


@pytest.fixture(scope="module")
def run_with(tmp_path_factory, tiny_dataset) -> Callable[..., Run]:
    """Runs two updates with some flags, once for each set of flags."""
    folder = tmp_path_factory.mktemp("flags")
    runs: dict[tuple[str, ...], Run] = {}

    def run(*flags: str) -> Run:
        if flags not in runs:
            run_dir = folder / str(len(runs))
            base = [f"--dataset.root={tiny_dataset}", f"--output_dir={run_dir}", "--steps=2"]
            run_training(read_train_config([*base, *flags]))
            runs[flags] = Run(run_dir)
        return runs[flags]

    return run


@pytest.fixture(scope="module")
def seen(tmp_path_factory, tiny_dataset, run_with) -> Callable[..., object]:
    """What a look shows with some flags."""
    folder = tmp_path_factory.mktemp("built")
    numbers = count()

    def see(look: Look, *flags: str) -> object:
        if not isinstance(look, Built):
            return look(run_with(*flags))
        run_dir = folder / str(next(numbers))
        base = [f"--dataset.root={tiny_dataset}", f"--output_dir={run_dir}", "--steps=2"]
        config = read_train_config([*base, *flags])
        with joined_world(config) as world:
            return look.look(assemble(config, run_dir, world).learner)

    return see


@pytest.mark.long
@pytest.mark.parametrize("name", EFFECTS)
def test_a_flag_has_a_visible_effect(seen, tiny_act, name):
    value, others, look = EFFECTS[name]
    flags = (*tiny_act, *others.split())
    assert seen(look, *flags, f"--{name}={value}") != seen(look, *flags)


@pytest.mark.parametrize("name", DIFFUSION_EFFECTS)
def test_a_flag_of_diffusion_has_a_visible_effect(seen, tiny_diffusion, name):
    value, others, look = DIFFUSION_EFFECTS[name]
    flags = (*tiny_diffusion, *others.split())
    assert seen(look, *flags, f"--{name}={value}") != seen(look, *flags)


@pytest.mark.parametrize("name", REFUSALS)
def test_a_flag_that_cannot_be_met_is_refused_by_name(tmp_path, tiny_act, tiny_dataset, name):
    value, words = REFUSALS[name]
    source = [] if name.startswith("dataset.") else [f"--dataset.root={tiny_dataset}"]
    source += ["--dataset.repo_id=me/none"] if name == "dataset.revision" else []
    argv = [*source, *tiny_act, f"--output_dir={tmp_path / 'run'}", f"--{name}={value}"]
    with pytest.raises(UserError, match=words):
        run_training(read_train_config(argv))


def test_no_flag_is_left_out():
    covered = EFFECTS.keys() | DIFFUSION_EFFECTS.keys() | REFUSALS.keys() | ELSEWHERE.keys()
    assert covered == {flag.name for flag in flags_of(TrainConfig)}
    tests = Path(__file__).parents[1]
    for name, file in ELSEWHERE.items():
        assert name.rpartition(".")[2] in (tests / file).read_text(), f"{file} does not test {name}"
