"""Validation of cached vision tokens."""

from collections.abc import Iterator

from manyhands.config.train import TrainConfig

FLAG = "--cache.vision_tokens=true"


def vision_token_faults(config: TrainConfig) -> Iterator[str]:
    """Yield every reason why vision tokens, if requested, cannot be cached or used."""
    if not config.cache.vision_tokens:
        return
    shard = config.parallelism.dp_shard
    if config.cache.mode == "off":
        yield f"{FLAG} needs a cache, but --cache.mode=off. Use only one of them"
    if config.dataset.image_transforms.enable:
        yield (
            f"{FLAG} caches features of unaugmented images, but "
            "--dataset.image_transforms.enable=true. Use only one of them"
        )
    if shard != 1:
        yield (
            f"{FLAG} needs unsharded weights, but --parallelism.dp_shard={shard}. Use only one of "
            "them"
        )
