"""The CPU form of a documented command: the same command, with the values below changed."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import yaml

MOST_PROCESSES = 2
MOST_SAMPLES = 4
STAGED_STEPS = 200  # Steps of the runs that commands resume.
TRAINING = {"--policy.device": "cpu", "--num_workers": "0", "--log_freq": "1"}
POLICY_SIZES = {
    "act": {
        "dim_model": "16",
        "n_heads": "2",
        "dim_feedforward": "32",
        "n_encoder_layers": "1",
        "n_vae_encoder_layers": "1",
        "latent_dim": "4",
        "chunk_size": "6",
        "n_action_steps": "6",
        "pretrained_backbone_weights": "null",
    },
    "diffusion": {
        "down_dims": "[8, 16]",
        "horizon": "8",
        "n_action_steps": "4",
        "drop_n_last_frames": "2",
        "resize_shape": "null",
        "crop_shape": "[28, 28]",
        "diffusion_step_embed_dim": "8",
        "num_train_timesteps": "10",
        "scheduler_warmup_steps": "1",
        "spatial_softmax_num_keypoints": "4",
    },
    "smolvla": {
        "vlm_model_name": "tiny_vlm",
        "num_vlm_layers": "2",
        "chunk_size": "4",
        "n_action_steps": "4",
        "resize_imgs_with_padding": "[32,32]",
    },
}
"""Sizes with which a policy makes a step in milliseconds; the model is a folder of the sandbox."""
LIMITS = {
    "--batch_size": MOST_SAMPLES,
    "--global_batch_size": MOST_SAMPLES,
    "--launch.num_processes": MOST_PROCESSES,
    "--num_processes": MOST_PROCESSES,
    "--nproc-per-node": MOST_PROCESSES,
    "--nproc_per_node": MOST_PROCESSES,
    "--eval_steps": 1,
    "--env_eval_freq": 2,
    "--eval.n_episodes": 2,
    "--epochs": 1,
    "--num_steps": 2,
    "--warm_up": 1,
}
"""Numbers that are lowered to what two cores do in seconds."""
REPLACED = {
    "--launch.gpu_ids": ("--launch.num_processes", "2"),
    "--step.mode": ("--step.mode", "eager"),
    "--compare": ("--compare", "[eager]"),
    "--profile": ("--profile", "1:2"),
    "--image_size": ("--image_size", "[32,32]"),
}
"""Flags that only GPUs have a use for, or whose value costs a CPU minutes."""
GPU_ONLY = ("--multi_gpu",)
FP16 = "--mixed_precision=fp16"  # Needs a GPU.


def cpu_words(words: Sequence[str]) -> list[str]:
    """The words of a command with its numbers lowered and the flags of GPUs replaced."""
    return [cpu_word(word) for word in words if word not in GPU_ONLY]


def cpu_word(word: str) -> str:
    """One word of a command, lowered or replaced."""
    if word == FP16:
        return "--mixed_precision=no"
    name, equals, value = word.partition("=")
    flag = name if name.startswith("--") else f"--{name}"
    if equals and flag in LIMITS and value.isdecimal():
        return f"{name}={min(int(value), LIMITS[flag])}"
    if equals and flag in REPLACED and not value.startswith("outputs"):
        return "=".join(REPLACED[flag])
    return word


def launcher_options(options: Sequence[str]) -> list[str]:
    """Options of accelerate and torchrun in their CPU form; those of a file are replaced."""
    names = [after for word, after in pairwise(options) if word == "--config_file"]
    if not names:
        return cpu_words(options)
    tree = yaml.safe_load(Path(names[0]).read_text(encoding="utf-8"))
    fp16 = ["--mixed_precision=no"] if tree.get("mixed_precision") == "fp16" else []
    return [*cpu_words(options), f"--num_processes={MOST_PROCESSES}", *fp16]


def train_flags(words: Sequence[str]) -> list[str]:
    """Flags of `manyhands train` in their CPU form."""
    flags = cpu_words(words)
    resumes = any(word.startswith("--resume") for word in flags)
    budgets = ("--steps", "--epochs", "--samples", "steps=")
    flags = [word for word in flags if not word.startswith(budgets)]
    flags.append(f"--steps={STAGED_STEPS + 2 if resumes else 2}")
    if any(word.startswith("--profile") for word in flags) and resumes:
        flags.append(f"--profile={STAGED_STEPS + 1}:{STAGED_STEPS + 2}")
    flags += [f"{name}={value}" for name, value in TRAINING.items()]
    flags += batch_flags(flags) + size_flags(flags) + sharding_flags(flags)
    return [*flags, *short_episodes(flags)]


def short_episodes(flags: Sequence[str]) -> list[str]:
    """Episodes of some steps where a simulator is chosen."""
    is_chosen = any(word.startswith("--env.type") for word in flags) or file_tree(flags).get("env")
    return ["--env.episode_length=4", "--eval.n_episodes=2"] if is_chosen else []


def batch_flags(flags: Sequence[str]) -> list[str]:
    """A small batch where none is given: by a flag a larger one of a file is replaced, too."""
    tree = file_tree(flags)
    if any(word.lstrip("-").startswith(("batch_size=", "global_batch_size=")) for word in flags):
        return []
    return ["--global_batch_size=4"] if "global_batch_size" in tree else ["--batch_size=2"]


def size_flags(flags: Sequence[str]) -> list[str]:
    """Sizes of the policy that the flags or their file choose."""
    is_given = {word.partition("=")[0] for word in flags}
    if any(word.startswith("--resume=outputs") for word in flags):
        return []
    sizes = POLICY_SIZES.get(policy_type(flags), {})
    return [
        f"--policy.{name}={value}"
        for name, value in sizes.items()
        if f"--policy.{name}" not in is_given
    ]


def policy_type(flags: Sequence[str]) -> str:
    """The type of policy that flags or their file choose; empty for a pretrained one."""
    for word in flags:
        found = re.fullmatch(r"(?:--)?policy(?:\.type)?=(\w+)", word)
        if found:
            return found[1]
    return str(file_tree(flags).get("policy", {}).get("type", ""))


def file_tree(flags: Sequence[str]) -> dict:
    """The content of the configuration that flags name; empty without one."""
    names = [
        word.partition("=")[2] for word in flags if word.startswith(("--config=", "--config_p"))
    ]
    names += [after for word, after in pairwise(flags) if word == "--config"]
    files = [Path(name) for name in names if Path(name).suffix == ".yaml"]
    return yaml.safe_load(files[0].read_text(encoding="utf-8")) if files else {}


def sharding_flags(flags: Sequence[str]) -> list[str]:
    """Two processes where weights are to be sharded over all GPUs."""
    is_sharded = any(word.startswith("--parallelism.dp_") for word in flags)
    return ["--launch.num_processes=2"] if is_sharded else []


COMMANDS = {
    "demo": ["--fast"],
    "bench step": ["--num_steps=2", "--warm_up=1", "--policy.device=cpu"],
    "bench loader": ["--num_workers=1", "--batch_size=4", "--seconds=1"],
    "bench scaling": ["--steps=2", "--warm_up=1", "--policy.device=cpu", "--kind=measured"],
    "bench inference": ["--policy.device=cpu"],
    "plan": [],
    "eval": ["--policy.device=cpu"],
}
"""Flags that are added to a command."""


def manyhands_words(words: Sequence[str]) -> list[str]:
    """The words after `manyhands` in their CPU form."""
    if words[:1] == ["train"] and not {"--help", "--print_config"} & {*words}:
        return ["train", *train_flags(words[1:])]
    for name, added in COMMANDS.items():
        if words[: len(name.split())] == name.split():
            flags = [*cpu_words(words), *added]
            is_eval = name == "eval"
            return [*flags, *(short_episodes(flags) if is_eval else size_flags(flags))]
    return list(words)
