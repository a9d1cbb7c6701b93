"""What `manyhands train --help` shows: the flags that most users need, by task, on one screen."""

ESSENTIALS = {
    "data": {
        "--dataset.root=DIR": "folder of a LeRobot dataset",
        "--dataset.repo_id=NAME": "or its name on the Hub",
        "--dataset.episodes=[0,1,2]": "some of its episodes; default: all",
        "--dataset.on_bad=skip": "exclude bad samples",
    },
    "policy": {
        "--policy.type=act": "act, diffusion or smolvla",
        "--policy.path=DIR": "or a pretrained policy",
        "--policy.device=cpu": "default: cuda if available",
    },
    "training": {
        "--steps=100000": "or --epochs=200",
        "--batch_size=8": "samples per process",
        "--optimizer.lr=1e-5": "default: that of the policy",
        "--ema.enable=true": "also average the weights",
        "--dataset.image_transforms.enable=true": "augment images",
    },
    "results": {
        "--output_dir=DIR": "checkpoints, metrics and log.txt",
        "--save_freq=20000": "steps between checkpoints",
        "--resume=DIR": "continue a run; auto: if there is one",
        "--wandb.enable=true": "also tensorboard, trackio",
        "--dataset.eval_split=0.1": "hold out episodes, see --eval_steps",
        "--env.type=pusht": "simulate: tray, pusht, aloha, gym",
    },
    "GPUs": {
        "--launch.num_processes=4": "default: one process per GPU",
        "--accelerator.mixed_precision=bf16": "no, bf16 or fp16",
        "--parallelism.dp_shard=4": "shard weights over GPUs (FSDP2)",
    },
}
