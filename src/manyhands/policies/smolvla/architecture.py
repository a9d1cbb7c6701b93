"""The published vision-language model's architecture, to build it with random weights."""

from typing import Any

from manyhands.config.smolvla import SmolVLAConfig

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
