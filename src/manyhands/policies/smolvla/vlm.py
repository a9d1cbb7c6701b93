"""The vision-language model and the action expert, of transformers' modules.

transformers is imported by the functions that need it: other policies do without.
"""

from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyhands.config.policies.smolvla import SmolVLAConfig
from manyhands.errors import CheckpointError, ConfigError, UserError, WeightsUnavailable
from manyhands.lerobot_format.files import read_json, read_tensors
from manyhands.lerobot_format.policy.folder import mismatches
from manyhands.policies.hub_models import SETTINGS, WEIGHTS, extra_module, model_folder

_TEXT = {
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "vocab_size": 49_280,
    "pad_token_id": 2,
    "hidden_size": 960,
    "intermediate_size": 2560,
    "num_hidden_layers": 32,
    "num_attention_heads": 15,
    "num_key_value_heads": 5,
    "head_dim": 64,
    "rms_norm_eps": 1e-5,
}
_VISION = {
    "model_type": "smolvlm_vision",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "image_size": 512,
    "patch_size": 16,
    "layer_norm_eps": 1e-6,
    "hidden_act": "gelu_pytorch_tanh",
}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    SmolVLAConfig.vlm_model_name: {
        "model_type": "smolvlm",
        "image_token_id": 49_190,
        "pad_token_id": 2,
        "scale_factor": 4,
        "tie_word_embeddings": False,
        "text_config": _TEXT,
        "vision_config": _VISION,
    }
}
"""`config.json` of models on the Hub, by name."""


FLAG = "--policy.vlm_model_name"
CONFIG_FILE = "config.json"
TOKENIZER_FILE = "tokenizer.json"
WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
KIND = "smolvlm"

_MLP_MULTIPLE = 256


def vlm_folder(config: SmolVLAConfig, needs_weights: bool = False) -> Path:
    """The folder of a policy's vision-language model."""
    patterns = (*SETTINGS, WEIGHTS) if needs_weights else SETTINGS
    return model_folder(config.vlm_model_name, FLAG, patterns)


def read_vlm_config(config: SmolVLAConfig) -> Any:
    """The configuration of the vision-language model, truncated to the configured layers."""
    transformers = extra_module("transformers", config.type)
    document = _document_of(config)
    if document.get("model_type") != KIND:
        raise ConfigError(
            f"{FLAG}={config.vlm_model_name} has model type {document.get('model_type')}; "
            f"SmolVLA needs {KIND}, such as {SmolVLAConfig.vlm_model_name}"
        )
    found = transformers.SmolVLMConfig.from_dict(document)
    text = found.text_config
    if config.num_vlm_layers > text.num_hidden_layers:
        raise ConfigError(
            f"--policy.num_vlm_layers={config.num_vlm_layers} exceeds the "
            f"{text.num_hidden_layers} layers of {config.vlm_model_name}"
        )
    if config.num_vlm_layers > 0:
        text.num_hidden_layers = config.num_vlm_layers
    # All weights in bf16 if they are loaded; else only the text model, if its config says so.
    text.dtype = (
        torch.bfloat16 if config.load_vlm_weights else _dtype_of(document.get("text_config", {}))
    )
    return found


def _document_of(config: SmolVLAConfig) -> dict[str, Any]:
    """The config of a vision-language model; a built-in one is enough for random weights."""
    try:
        return read_json(vlm_folder(config) / CONFIG_FILE, WeightsUnavailable)
    except WeightsUnavailable:
        known = ARCHITECTURES.get(config.vlm_model_name)
        if known is None or not config.random_vlm:
            raise
        return deepcopy(known)


def _dtype_of(document: dict[str, Any]) -> torch.dtype:
    name = document.get("dtype", document.get("torch_dtype")) or "float32"
    dtype = getattr(torch, str(name), None)
    if not isinstance(dtype, torch.dtype):
        raise UserError(f"{CONFIG_FILE} of {FLAG}: unknown dtype {name}")
    return dtype


def build_vlm(found: Any, config: SmolVLAConfig) -> nn.Module:
    """The vision-language model with random weights, in the types that LeRobot gives it."""
    transformers = extra_module("transformers", config.type)
    vlm: nn.Module = transformers.SmolVLMForConditionalGeneration(deepcopy(found))
    vlm.to(torch.bfloat16 if config.load_vlm_weights else torch.float32)
    text_model_of(vlm).to(found.text_config.dtype)
    return vlm


def build_expert(found: Any, config: SmolVLAConfig) -> Any:
    """The action expert: the text model's layers, narrower, and without word embeddings."""
    transformers = extra_module("transformers", config.type)
    text = deepcopy(found.text_config)
    dtype, num_kept = text.dtype, text.num_hidden_layers
    key_width = text.num_key_value_heads * text.head_dim
    text.hidden_size = int(text.hidden_size * config.expert_width_multiplier)
    text.intermediate_size = mlp_width(text.hidden_size)
    text.num_hidden_layers = config.num_expert_layers if config.num_expert_layers > 0 else num_kept
    text.vocab_size, text.pad_token_id = 1, None
    expert = transformers.LlamaModel(text).to(dtype)
    expert.embed_tokens = None
    for index, layer in enumerate(expert.layers):
        if not is_self_attention(index, config):
            # It attends to the vision-language model's keys and values, in full precision.
            for name in ("k_proj", "v_proj"):
                projection = nn.Linear(key_width, key_width, bias=text.attention_bias)
                setattr(layer.self_attn, name, projection)
    return expert


def mlp_width(width: int) -> int:
    """The width of an expert's feed-forward layers."""
    wanted = 4 * int(2 * width / 3)
    return -(-wanted // _MLP_MULTIPLE) * _MLP_MULTIPLE


def is_self_attention(layer: int, config: SmolVLAConfig) -> bool:
    """Whether actions attend to each other in a layer, or only to the observation."""
    every = config.self_attn_every_n_layers
    return "cross" not in config.attention_mode or (every > 0 and layer % every == 0)


def text_model_of(vlm: nn.Module) -> nn.Module:
    """The text model of a vision-language model."""
    model: Any = vlm.model
    text: nn.Module = model.text_model
    return text


def read_vlm_weights(wanted: Iterable[str], config: SmolVLAConfig) -> dict[str, Tensor]:
    """The pretrained weights of those names; others, as of truncated layers, are skipped."""
    folder = vlm_folder(config, needs_weights=True)
    if (folder / INDEX_FILE).is_file():
        files = sorted(set(read_json(folder / INDEX_FILE)["weight_map"].values()))
    else:
        files = [WEIGHTS_FILE]
    missing = [file for file in files if not (folder / file).is_file()]
    if missing:
        raise WeightsUnavailable(
            f"{FLAG}={config.vlm_model_name}: {folder} lacks weights {', '.join(missing)}. "
            f"Add them, or set {FLAG} to a folder that has them"
        )
    weights = {name: value for file in files for name, value in read_tensors(folder / file).items()}
    return {name: weights[name] for name in wanted if name in weights}


def init_vlm(vlm: nn.Module, config: SmolVLAConfig) -> None:
    """Load its pretrained weights if configured, unless a complete policy is loaded next."""
    if config.random_vlm or config.pretrained_path is not None:
        return
    if config.load_vlm_weights:
        load_vlm(vlm, config)
    elif config.train_expert_only or config.freeze_vision_encoder:
        raise ConfigError(
            "the vision-language model would stay frozen with random weights. Set "
            "--policy.load_vlm_weights=true, or --policy.path=lerobot/smolvla_base, or "
            "--policy.random_vlm=true to accept that"
        )


def load_vlm(vlm: nn.Module, config: SmolVLAConfig) -> None:
    """Load a vision-language model's pretrained weights."""
    own = vlm.state_dict()
    found = read_vlm_weights(own, config)
    faults = mismatches(found, own)
    if faults:
        raise CheckpointError(
            f"{FLAG}={config.vlm_model_name} does not match its config:\n{faults}"
        )
    vlm.load_state_dict(found)


def image_marks(config: SmolVLAConfig) -> tuple[int, int]:
    """Tokens around an image, and the token of a complete one."""
    tokenizers = extra_module("tokenizers", config.type)
    path = vlm_folder(config) / TOKENIZER_FILE
    if not path.is_file():
        raise WeightsUnavailable(f"{path} is missing; --policy.add_image_special_tokens needs it")
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    names = ("<fake_token_around_image>", "<global-img>")
    around, whole = (tokenizer.token_to_id(name) for name in names)
    if around is None or whole is None:
        raise UserError(f"{path} lacks one of the tokens {', '.join(names)}")
    return around, whole
