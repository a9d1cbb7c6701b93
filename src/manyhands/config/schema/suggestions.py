"""Suggests flags: for names of other programs, and for flags without effect."""

import re
from collections.abc import Collection, Iterator

from manyhands.config.schema.json_values import closest_match
from manyhands.config.train import TrainConfig

FLAG = re.compile(r"--[a-z][\w.]*(?:=\S+)?")
_WARMUP = (
    "--scheduler.num_warmup_steps, with --scheduler.type=constant_with_warmup if the policy has "
    "no scheduler"
)

_NAMES: dict[str, str] = {
    "--optimizer.lr": "lr learning_rate base_lr max_lr",
    "--optimizer.weight_decay": "weight_decay wd",
    "--optimizer.grad_clip_norm": "clip grad_clip grad_clip_norm clip_grad_norm max_grad_norm "
    "gradient_clipping gradient_clip_val",
    "--optimizer.type": "optim optimizer_type optimizer_name",
    _WARMUP: "warmup warmup_steps num_warmup_steps lr_warmup_steps warmup_ratio",
    "--scheduler.type": "lr_scheduler lr_scheduler_type schedule scheduler_name",
    "--epochs": "num_epochs num_train_epochs max_epochs n_epochs",
    "--steps": "max_steps num_steps train_steps num_train_steps training_steps total_steps "
    "iterations max_iters offline_steps updates",
    "--batch_size": "bs batch per_device_train_batch_size train_batch_size",
    "--global_batch_size": "total_batch_size effective_batch_size",
    "--accelerator.gradient_accumulation.steps": "gradient_accumulation_steps grad_accum "
    "accumulation_steps accumulate_grad_batches",
    "--num_workers": "workers dataloader_num_workers j",
    "--output_dir": "output out out_dir save_dir log_dir run_dir",
    "--job_name": "name run_name exp_name experiment experiment_name",
    "--launch.num_processes": "gpus num_gpus n_gpus ngpus devices num_processes nproc "
    "nproc_per_node world_size",
    "--launch.gpu_ids": "gpu gpu_ids cuda_visible_devices",
    "--launch.num_machines": "nodes nnodes num_nodes num_machines",
    "--launch.machine_rank": "node_rank machine_rank",
    "--launch.main_address": "master_addr main_process_ip",
    "--launch.main_port": "master_port main_process_port",
    "--accelerator.mixed_precision": "precision mixed_precision",
    "--accelerator.mixed_precision=bf16": "bf16 amp use_amp half",
    "--accelerator.mixed_precision=fp16": "fp16",
    "--accelerator.mixed_precision=no": "fp32 float32",
    "--parallelism.dp_shard=-1": "fsdp deepspeed zero_stage zero",
    "--step.mode=compile": "compile torch_compile",
    "--policy.device": "device",
    "--policy.device=cpu": "cpu use_cpu no_cuda",
    "--policy.type": "model model_type policy_type policy_name model_name algo",
    "--policy.path": "checkpoint ckpt pretrained pretrained_path load weights init_from",
    "--dataset.root": "data data_dir data_path dataset_path dataset_root dataset_dir root",
    "--dataset.repo_id": "repo_id dataset_id dataset_name dataset_repo_id",
    "--dataset.eval_split": "val_split validation_split test_split",
    "--resume": "resume_from resume_from_checkpoint continue",
    "--save_freq": "save_every save_steps save_interval checkpoint_freq checkpoint_every",
    "--log_freq": "log_every logging_steps log_interval print_freq",
    "--eval_steps": "val_freq eval_every eval_interval val_check_interval",
    "--keep_last": "save_total_limit max_checkpoints",
    "--ema.enable=true": "ema use_ema",
    "--seed": "random_seed",
    "--cudnn_deterministic=true": "deterministic",
    "--wandb.enable=true": "wandb use_wandb log_with report_to",
    "--wandb.project": "wandb_project",
    "--wandb.entity": "wandb_entity",
    "--tensorboard.enable=true": "tensorboard use_tensorboard",
    "--trackio.enable=true": "trackio",
}
SYNONYMS = {name: advice for advice, names in _NAMES.items() for name in names.split()}
"""What to use for the names that other programs have for a setting."""
TRAINING = ("accelerator", "launch", "optimizer", "policy", "scheduler")
"""Sections in which settings of other sections are looked for."""


def flags_in(text: str) -> list[str]:
    """The flags in a text, each with its value if it has one."""
    return [flag.rstrip(".,:;)") for flag in FLAG.findall(text)]


def suggest_flag(name: str, flags: Collection[str]) -> str:
    """Suggest a flag for an unknown one: by meaning, by its last word, or by spelling."""
    for meant in _meanings(name, flags):
        if all(flag.partition("=")[0] in flags for flag in flags_in(meant)):
            return f"; use {meant}"
    inner = [flag for flag in dict.fromkeys(flags) if flag.endswith(f".{name}")]
    if len(inner) == 1:
        return f"; use {inner[0]}"
    return closest_match(f"--{name}", flags)


def _meanings(name: str, flags: Collection[str]) -> Iterator[str]:
    """What a name may mean: by itself, joined to its section, or by its last word alone."""
    section, _, word = name.rpartition(".")
    yield from (SYNONYMS[text] for text in (name, f"{section}_{word}") if text in SYNONYMS)
    if section and f"--{word}" in flags:
        yield f"--{word}"
    meant = SYNONYMS.get(word)
    is_section = any(flag.startswith(f"--{section}.") for flag in flags)
    # Other sections than these have settings of their own that go by such names.
    if meant and (not is_section or section in TRAINING or meant.startswith(f"--{section}.")):
        yield meant


def longer_warmup(config: TrainConfig) -> str:
    """The flags that lengthen the warm-up for the policy of a run."""
    kind = "" if config.scheduler is not None else "--scheduler.type=constant_with_warmup "
    return f"{kind}--scheduler.num_warmup_steps=1000"


def hub_note(config: TrainConfig) -> list[str]:
    """Note that a repo_id is set but nothing is pushed; in LeRobot the name suffices."""
    policy = config.policy
    if policy is None or policy.push_to_hub or policy.repo_id is None:
        return []
    return [
        f"NOTE: the policy is not pushed to {policy.repo_id}; add --policy.push_to_hub=true to "
        "push it when training has finished"
    ]
