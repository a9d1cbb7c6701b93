#!/usr/bin/env bash
# Fine-tunes SmolVLA on GPUs of this machine. Needs: pip install 'manyhands[smolvla]'
# Edit the lines below, or set them: DATASET=YOU/DATASET NUM_GPUS=4 bash train_smolvla_multi_gpu.sh
# Flags are passed on: --resume=auto continues a run that stopped, --peft.method_type=LORA trains
# adapters only.
set -euo pipefail

# No default: a policy learns your robot only from your demonstrations.
: "${DATASET:?name a folder or a dataset on the Hub: DATASET=YOU/DATASET bash train_smolvla_multi_gpu.sh}"
POLICY_PATH=${POLICY_PATH:-lerobot/smolvla_base}  # A folder, or a name on the Hub.
NUM_GPUS=${NUM_GPUS:-null}  # null: all that CUDA_VISIBLE_DEVICES leaves visible.
OUTPUT_DIR=${OUTPUT_DIR:-outputs/train/smolvla_multi_gpu}
BATCH_SIZE=${BATCH_SIZE:-16}  # Of each GPU: four make steps of 64 samples.
STEPS=${STEPS:-20000}

# A folder is read where it is; any other name is looked up in LeRobot's cache, then on the Hub.
if [ -d "$DATASET" ]; then where=root; else where=repo_id; fi

flags=(
    --policy.path="$POLICY_PATH"
    --dataset."$where"="$DATASET"
    --output_dir="$OUTPUT_DIR"
    --batch_size="$BATCH_SIZE"
    --steps="$STEPS"
)

# bf16 is the default on GPUs that support it. Cameras that the policy knows by other names are rejected
# before the first step, with the --rename_map that fixes it.
# The same with another launcher:
#   accelerate launch --multi_gpu --num_processes=4 "$(which manyhands-train)" "${flags[@]}" "$@"
#   torchrun --nproc-per-node=4 "$(which manyhands-train)" "${flags[@]}" "$@"
exec manyhands train --launch.num_processes="$NUM_GPUS" "${flags[@]}" "$@"
