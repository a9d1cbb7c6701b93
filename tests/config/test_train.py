"""The set of flags is a contract: adding or removing one must be meant."""

from manyhands.config.schema import flags_of
from manyhands.config.train import TrainConfig

FLAGS = """
accelerator.gradient_accumulation.steps accelerator.mixed_precision audit batch_size
cudnn_deterministic dataloader_multiprocessing_context dataset.episodes dataset.repo_id
dataset.revision dataset.root dataset.use_imagenet_stats job_name launch.num_processes log_freq
num_workers optimizer.betas optimizer.dampening optimizer.eps optimizer.grad_clip_norm optimizer.lr
optimizer.momentum optimizer.nesterov optimizer.type optimizer.weight_decay output_dir
policy.chunk_size policy.device policy.dim_feedforward policy.dim_model policy.dropout
policy.feedforward_activation policy.input_features policy.kl_weight policy.latent_dim
policy.license policy.n_action_steps policy.n_decoder_layers policy.n_encoder_layers policy.n_heads
policy.n_obs_steps policy.n_vae_encoder_layers policy.normalization_mapping policy.optimizer_lr
policy.optimizer_lr_backbone policy.optimizer_weight_decay policy.output_features policy.path
policy.pre_norm policy.pretrained_backbone_weights policy.pretrained_path
policy.pretrained_revision policy.private policy.push_to_hub
policy.replace_final_stride_with_dilation policy.repo_id policy.tags policy.temporal_ensemble_coeff
policy.type policy.use_amp policy.use_peft policy.use_vae policy.vision_backbone prefetch_factor
resume save_checkpoint save_freq scheduler.decay_lr scheduler.name scheduler.num_decay_steps
scheduler.num_warmup_steps scheduler.peak_lr scheduler.type seed steps use_policy_training_preset
""".split()


def test_the_flags_are_these():
    assert sorted({flag.name for flag in flags_of(TrainConfig)}) == FLAGS
