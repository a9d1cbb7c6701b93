#!/usr/bin/env bash
# Trains on GPUs of this machine with accelerate: bash scripts/train_multi_gpu.sh [FLAGS OF TRAINING]
# accelerate_config_single_node.yaml has the number of GPUs, configs/base_config.yaml the run.
# CUDA_VISIBLE_DEVICES=2,3 selects GPUs. CONFIG=FILE trains another run, as CONFIG=configs/debug_config.yaml.
set -euo pipefail
cd "$(dirname "$0")/.."
exec accelerate launch --config_file accelerate_config_single_node.yaml \
    train.py --config "${CONFIG:-configs/base_config.yaml}" "$@"
