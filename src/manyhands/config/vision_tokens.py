"""What keeps a run from reading tokens of images that were made ahead."""

from collections.abc import Iterator

from manyhands.config.train import TrainConfig

FLAG = "--cache.vision_tokens=true"


def vision_token_faults(config: TrainConfig) -> Iterator[str]:
    """Yield every reason that tokens, if they are asked for, cannot be kept or used."""
    if not config.cache.vision_tokens:
        return
    shard = config.parallelism.dp_shard
    if config.cache.mode == "off":
        yield f"{FLAG} has nowhere to keep tokens with --cache.mode=off; leave one of them out"
    if config.dataset.image_transforms.enable:
        yield (
            f"{FLAG} keeps tokens of images as they are recorded, which "
            "--dataset.image_transforms.enable=true changes each time; leave one of them out"
        )
    if shard != 1:
        yield (
            f"{FLAG} needs whole weights in every process, which --parallelism.dp_shard={shard} "
            "cuts up; leave one of them out"
        )
