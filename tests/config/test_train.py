"""The set of flags is a contract: adding or removing one must be meant."""

import pytest

from manyhands.config.resolve import read_train_config
from manyhands.config.schema import flags_of
from manyhands.config.train import EmaConfig, ScalingConfig, TrainConfig
from manyhands.errors import ConfigError

FLAGS = [
    "accelerator.ddp.find_unused_parameters",
    "accelerator.ddp.gradient_as_bucket_view",
    "accelerator.ddp.gradient_compression",
    "accelerator.ddp.static_graph",
    "accelerator.fsdp.cpu_offload",
    "accelerator.fsdp.reshard_after_forward",
    "accelerator.fsdp.wrap_modules",
    "accelerator.gradient_accumulation.steps",
    "accelerator.mixed_precision",
    "audit",
    "batch_size",
    "cache.encoding",
    "cache.folder",
    "cache.max_disk",
    "cache.mode",
    "checkpoint_format",
    "cudnn_deterministic",
    "dataloader_multiprocessing_context",
    "dataset.check",
    "dataset.depth_output_unit",
    "dataset.episodes",
    "dataset.eval_split",
    "dataset.exclude_episodes",
    "dataset.image_size",
    "dataset.image_transforms.enable",
    "dataset.image_transforms.max_num_transforms",
    "dataset.image_transforms.random_order",
    "dataset.image_transforms.tfs",
    "dataset.max_bad",
    "dataset.mix",
    "dataset.on_bad",
    "dataset.repo_id",
    "dataset.revision",
    "dataset.root",
    "dataset.use_imagenet_stats",
    "dtype",
    "ema.decay",
    "ema.enable",
    "ema.inv_gamma",
    "ema.max_decay",
    "ema.min_decay",
    "ema.power",
    "ema.update_after_step",
    "ema.use_for_eval",
    "epochs",
    "eval_steps",
    "find_batch_size",
    "global_batch_size",
    "job_name",
    "keep_best",
    "keep_every",
    "keep_last",
    "launch.gpu_ids",
    "launch.machine_rank",
    "launch.main_address",
    "launch.main_port",
    "launch.max_restarts",
    "launch.num_machines",
    "launch.num_processes",
    "log_freq",
    "max_eval_samples",
    "max_ram",
    "num_workers",
    "on_nonfinite",
    "optimizer.betas",
    "optimizer.dampening",
    "optimizer.eps",
    "optimizer.grad_clip_norm",
    "optimizer.lr",
    "optimizer.momentum",
    "optimizer.nesterov",
    "optimizer.type",
    "optimizer.weight_decay",
    "output_dir",
    "parallelism.dp_replicate",
    "parallelism.dp_shard",
    "parallelism.gpus_per_process",
    "policy.backbone_weights",
    "policy.beta_end",
    "policy.beta_schedule",
    "policy.beta_start",
    "policy.chunk_size",
    "policy.clip_sample",
    "policy.clip_sample_range",
    "policy.compile_mode",
    "policy.compile_model",
    "policy.crop_is_random",
    "policy.crop_ratio",
    "policy.crop_shape",
    "policy.device",
    "policy.diffusion_step_embed_dim",
    "policy.dim_feedforward",
    "policy.dim_model",
    "policy.do_mask_loss_for_padding",
    "policy.down_dims",
    "policy.drop_n_last_frames",
    "policy.dropout",
    "policy.feedforward_activation",
    "policy.gradient_checkpointing",
    "policy.horizon",
    "policy.input_features",
    "policy.kernel_size",
    "policy.kl_weight",
    "policy.latent_dim",
    "policy.license",
    "policy.n_action_steps",
    "policy.n_decoder_layers",
    "policy.n_encoder_layers",
    "policy.n_groups",
    "policy.n_heads",
    "policy.n_obs_steps",
    "policy.n_vae_encoder_layers",
    "policy.noise_scheduler_type",
    "policy.normalization_mapping",
    "policy.num_inference_steps",
    "policy.num_train_timesteps",
    "policy.optimizer_betas",
    "policy.optimizer_eps",
    "policy.optimizer_lr",
    "policy.optimizer_lr_backbone",
    "policy.optimizer_weight_decay",
    "policy.output_features",
    "policy.path",
    "policy.pre_norm",
    "policy.prediction_type",
    "policy.pretrained_backbone_weights",
    "policy.pretrained_path",
    "policy.pretrained_revision",
    "policy.private",
    "policy.push_to_hub",
    "policy.replace_final_stride_with_dilation",
    "policy.repo_id",
    "policy.resize_shape",
    "policy.scheduler_name",
    "policy.scheduler_warmup_steps",
    "policy.spatial_softmax_num_keypoints",
    "policy.tags",
    "policy.temporal_ensemble_coeff",
    "policy.type",
    "policy.use_amp",
    "policy.use_film_scale_modulation",
    "policy.use_group_norm",
    "policy.use_peft",
    "policy.use_separate_rgb_encoder_per_camera",
    "policy.use_vae",
    "policy.vision_backbone",
    "prefetch_factor",
    "rename_map",
    "resume",
    "samples",
    "save_checkpoint",
    "save_freq",
    "scaling.base_batch_size",
    "scaling.lr",
    "scheduler.decay_lr",
    "scheduler.name",
    "scheduler.num_decay_steps",
    "scheduler.num_warmup_steps",
    "scheduler.peak_lr",
    "scheduler.type",
    "seed",
    "steps",
    "timeout_s",
    "use_policy_training_preset",
]


def test_the_flags_are_these():
    assert sorted({flag.name for flag in flags_of(TrainConfig)}) == FLAGS


def test_the_average_is_off_and_lerobots():
    ema = EmaConfig()
    assert (ema.enable, ema.decay, ema.update_after_step, ema.use_for_eval) == (
        False,
        None,
        0,
        True,
    )
    assert (ema.inv_gamma, ema.power, ema.min_decay, ema.max_decay) == (1.0, 0.75, 0.0, 0.9999)
    assert list(ema.faults()) == []


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"decay": 1.5}, "--ema.decay=1.5"),
        ({"min_decay": -0.1}, "--ema.min_decay=-0.1"),
        ({"min_decay": 0.9, "max_decay": 0.5}, "above --ema.max_decay=0.5"),
        ({"update_after_step": -1}, "--ema.update_after_step=-1"),
        ({"inv_gamma": 0.0}, "--ema.inv_gamma=0.0"),
        ({"power": float("nan")}, "--ema.power=nan"),
        ({"decay": 0.5, "min_decay": 0.1}, "--ema.min_decay has no effect"),
        ({"decay": 0.5, "max_decay": 0.9}, "--ema.max_decay has no effect"),
        ({"decay": 0.5, "power": 0.5}, "--ema.power has no effect"),
    ],
)
def test_an_average_that_cannot_be_is_refused_by_name(values, named):
    (fault,) = EmaConfig(**values).faults()
    assert named in fault


def test_details_of_an_average_that_nobody_asked_for_are_refused():
    argv = ["--dataset.root=data", "--policy.type=act", "--ema.decay=0.5"]
    with pytest.raises(ConfigError, match=r"--ema\.decay has no effect without --ema\.enable=true"):
        read_train_config(argv)
    assert read_train_config([*argv, "--ema.enable=true"]).ema.decay == 0.5


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"lr": "cubic"}, "--scaling.lr=cubic is not one of none, linear, sqrt"),
        ({"lr": "linear"}, "--scaling.lr=linear needs --scaling.base_batch_size"),
        ({"base_batch_size": 8}, "--scaling.base_batch_size=8 has no effect"),
        ({"lr": "sqrt", "base_batch_size": 0}, "--scaling.base_batch_size=0 must be at least 1"),
    ],
)
def test_a_scaling_that_says_too_little_or_too_much_is_refused_by_name(values, named):
    (fault,) = ScalingConfig(**values).faults()
    assert named in fault


def test_rates_are_not_scaled_unless_asked():
    assert TrainConfig().scaling == ScalingConfig(lr="none")
    assert list(ScalingConfig().faults()) == []
    assert list(ScalingConfig(lr="sqrt", base_batch_size=8).faults()) == []
