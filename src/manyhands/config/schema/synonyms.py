"""Names that other programs have for our flags, and what to use instead."""

_WARMUP = (
    "--scheduler.num_warmup_steps, with --scheduler.type=constant_with_warmup if the policy has "
    "no scheduler"
)

# Of several entries for a name, the first whose flags the command has is used.
_NAMES: dict[str, str] = {
    "--optimizer.lr": "lr learning_rate base_lr max_lr init_lr peak_lr initial_lr",
    "--optimizer.weight_decay": "weight_decay wd l2",
    "--optimizer.grad_clip_norm": "clip grad_clip grad_clip_norm clip_grad_norm max_grad_norm "
    "gradient_clipping gradient_clip_val clip_norm max_norm grad_norm_clip",
    "--optimizer.type": "optim optimizer_type optimizer_name",
    _WARMUP: "warmup warmup_steps num_warmup_steps lr_warmup_steps warmup_ratio warmup_epochs",
    "--scheduler.type": "lr_scheduler lr_scheduler_type lr_schedule schedule scheduler_name",
    "--scheduler.type=cosine_decay_with_warmup": "cosine cosine_decay cosine_annealing",
    "--scheduler.decay_lr, with --scheduler.type=cosine_decay_with_warmup": "min_lr lr_min "
    "final_lr end_lr",
    "--epochs": "num_epochs num_train_epochs max_epochs max_epoch n_epochs epoch",
    "--steps": "max_steps num_steps train_steps num_train_steps training_steps total_steps iters "
    "iterations max_iters num_iters num_iterations max_iterations train_iters n_iters n_steps "
    "offline_steps updates num_updates",
    "--batch_size": "bs batch micro_batch_size per_device_train_batch_size "
    "per_device_batch_size per_gpu_batch_size train_batch_size local_batch_size",
    "--global_batch_size": "total_batch_size effective_batch_size global_batch",
    "--accelerator.gradient_accumulation.steps": "gradient_accumulation_steps grad_accum "
    "accumulation_steps accumulate_grad_batches grad_accumulation accum_steps accumulate "
    "gradient_accumulation grad_accum_steps",
    "--num_workers": "workers dataloader_num_workers j n_workers nworkers",
    "--prefetch_factor": "prefetch",
    "--output_dir": "output out out_dir outdir output_path output_folder save_dir save_path "
    "log_dir logdir run_dir checkpoint_dir ckpt_dir work_dir workdir exp_dir",
    "--job_name": "name run_name exp_name experiment experiment_name wandb_name wandb_run_name",
    "--launch.num_processes": "gpus num_gpus n_gpus ngpus devices num_devices num_processes nproc "
    "nproc_per_node world_size ngpu n_gpu",
    "--gpus_per_node": "gpus num_gpus n_gpus ngpus devices num_devices nproc_per_node",
    "--launch.gpu_ids": "gpu gpu_ids gpu_id cuda_visible_devices device_ids",
    "--launch.num_machines": "nodes nnodes num_nodes n_nodes num_machines",
    "--nodes": "nnodes num_nodes n_nodes num_machines",
    "--launch.machine_rank": "node_rank machine_rank",
    "--launch.main_address": "master_addr main_process_ip master_address",
    "--launch.main_port": "master_port main_process_port",
    "--launch.num_processes=N, which trains with DDP": "ddp distributed "
    "strategy parallel data_parallel multi_gpu",
    "--accelerator.mixed_precision": "precision mixed_precision",
    "--accelerator.mixed_precision=bf16": "bf16 bfloat16 amp use_amp half autocast",
    "--accelerator.mixed_precision=fp16": "fp16 float16",
    "--accelerator.mixed_precision=no": "fp32 float32",
    "--parallelism.dp_shard=-1": "fsdp deepspeed zero_stage zero zero2 zero3 shard",
    "--step.mode=compile": "compile torch_compile use_compile jit",
    "--policy.gradient_checkpointing=true": "activation_checkpointing checkpoint_activations",
    "--policy.device": "device",
    "--policy.device=cpu": "cpu use_cpu no_cuda",
    "--policy.device=cuda": "cuda use_cuda",
    "--policy.type": "model model_type policy_type policy_name policy_class model_name algo "
    "algorithm arch architecture",
    "--policy.path": "checkpoint checkpoint_path ckpt ckpt_path pretrained pretrained_path "
    "pretrained_model pretrained_model_path policy_path model_path model load load_from weights "
    "init_from finetune finetune_from",
    "--policy.vision_backbone": "backbone encoder vision_encoder",
    "--policy.freeze_vision_encoder=true": "freeze_vision freeze_backbone freeze_encoder",
    "--policy.chunk_size": "action_chunk action_chunk_size chunk_len chunk_length action_horizon ",
    "--policy.horizon": "pred_horizon prediction_horizon",
    "--policy.n_obs_steps": "obs_horizon num_obs_steps history obs_history",
    "--policy.dim_model": "hidden_dim hidden_size d_model embed_dim",
    "--policy.n_heads": "nheads num_heads nhead",
    "--policy.n_encoder_layers": "num_layers n_layers enc_layers num_encoder_layers",
    "--policy.temporal_ensemble_coeff": "temporal_agg temporal_ensemble",
    "--policy.push_to_hub=true": "push upload",
    "--policy.repo_id": "hub_model_id hub_repo_id push_to",
    "--peft.method_type=LORA": "lora use_lora peft use_peft",
    "--peft.r": "lora_r lora_rank peft_rank",
    "--dataset.root": "data data_dir data_path dataset dataset_path dataset_root dataset_dir root "
    "datasets train_data",
    "--dataset.repo_id": "repo_id dataset_id dataset_name dataset_repo_id",
    "--dataset.eval_split": "val_split validation_split test_split val_ratio split",
    "--dataset.image_size": "image_size img_size resize image_resolution",
    "--dataset.image_transforms.enable=true": "augment augmentation aug image_aug "
    "data_augmentation image_transforms random_crop use_augmentation",
    "--dataset.episodes=[0,1,2] for recorded episodes, --eval.n_episodes for simulated ones": (
        "num_episodes max_episodes n_episodes"
    ),
    "--dataset.episodes": "episodes",
    "--exclude_episodes": "remove_episodes delete_episodes drop_episodes",
    "--dataset.exclude_episodes": "remove_episodes delete_episodes drop_episodes exclude_episodes",
    "--eval.n_episodes": "n_eval_episodes eval_episodes num_eval_episodes num_rollouts n_rollouts "
    "rollouts trials num_trials eval_num_episodes",
    "--env.type": "env env_name env_id environment simulator",
    "--eval.batch_size": "num_envs n_envs",
    "--config": "config_file cfg config_name conf",
    "--resume": "resume_from resume_from_checkpoint resume_path resume_dir continue "
    "continue_from auto_resume",
    "--save_freq": "save_every save_steps save_interval checkpoint_freq checkpoint_every "
    "checkpoint_interval checkpointing_steps ckpt_every save_every_n_steps",
    "--log_freq": "log_every logging_steps log_interval print_freq log_steps log_every_n_steps",
    "--eval_steps": "val_freq val_every eval_every eval_interval val_check_interval val_interval "
    "validate_every eval_strategy evaluation_strategy validation_steps",
    "--keep_last": "save_total_limit max_checkpoints max_to_keep keep_checkpoints "
    "checkpoints_total_limit",
    "--keep_best=held_out_loss": "save_best best keep_best_checkpoint load_best_model_at_end",
    "--early_stopping_patience": "early_stopping patience early_stop early_stop_patience",
    "--ema.enable=true": "ema use_ema",
    "--ema.decay": "ema_decay ema_beta ema_alpha ema_rate ema_momentum",
    "--cache.folder": "cache_dir cache_path cache_root",
    "--cache.mode": "cache",
    "--cache.max_disk": "cache_size",
    "--seed": "random_seed",
    "--cudnn_deterministic=true": "deterministic",
    "--wandb.enable=true": "wandb use_wandb log_with report_to logger",
    "--wandb.project": "wandb_project project project_name",
    "--wandb.entity": "wandb_entity entity",
    "--tensorboard.enable=true": "tensorboard use_tensorboard",
    "--trackio.enable=true": "trackio",
    "--profile=steps": "profiler use_profiler",
    "--print_config, which prints the configuration and exits": "dry_run",
}


def _by_name() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for advice, names in _NAMES.items():
        for name in names.split():
            found.setdefault(name, []).append(advice)
    return found


SYNONYMS = _by_name()
"""What to use for a name: of several advices, the first whose flags a command has."""
