#!/usr/bin/env bash
# Trains on all GPUs of this machine. Edit the lines below, or set them: DATASET=... bash train_multi_gpu.sh
set -euo pipefail

: "${DATASET:?name the folder of a LeRobot dataset: DATASET=DIR bash train_multi_gpu.sh}"
POLICY=${POLICY:-act}
OUTPUT=${OUTPUT:-outputs/train/${POLICY}_multi_gpu}
GLOBAL_BATCH=${GLOBAL_BATCH:-64}  # Samples per step on any number of GPUs.
STEPS=${STEPS:-100000}
# export CUDA_VISIBLE_DEVICES=0,1  # Chooses GPUs; all that are visible are used.

flags=(
    --dataset.root="$DATASET"
    --policy.type="$POLICY"
    --output_dir="$OUTPUT"
    --global_batch_size="$GLOBAL_BATCH"
    --steps="$STEPS"
)

# The same with another launcher:
#   accelerate launch --multi_gpu --num_processes=2 "$(which manyhands-train)" "${flags[@]}" "$@"
#   torchrun --nproc-per-node=2 "$(which manyhands-train)" "${flags[@]}" "$@"
exec manyhands train "${flags[@]}" "$@"
