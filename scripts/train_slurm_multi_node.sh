#!/bin/bash
# Trains with manyhands. Submit it any number of times: it resumes where the last job stopped.
#     sbatch scripts/train_slurm_multi_node.sh
# Written by:
#     manyhands launch slurm --nodes=2 --gpus_per_node=4 --partition=gpu --script=scripts/train_slurm_multi_node.sh -- --config=configs/base_config.yaml --output_dir=outputs/slurm_multi_node

#SBATCH --job-name=train
#SBATCH --partition=gpu
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --chdir=.
# A requeued job has the same number, %j, and appends to the same files.
#SBATCH --output=logs/train_%j.out
#SBATCH --error=logs/train_%j.err
#SBATCH --open-mode=append
# This many seconds before the time limit, SLURM asks the run to save and exit.
#SBATCH --signal=USR1@120
#SBATCH --requeue

set -eo pipefail
set -u

# Rendezvous on the first node, on a port that other jobs on that node do not use.
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
export MASTER_ADDR=${nodes%%$'\n'*}
export MASTER_PORT=$((12000 + SLURM_JOB_ID % 20000))
echo "job $SLURM_JOB_ID, restart ${SLURM_RESTART_COUNT:-0}, on $SLURM_JOB_NODELIST"

# Starts, or resumes from the newest checkpoint of an earlier job.
train=(
    manyhands train
    --config=configs/base_config.yaml
    --output_dir=outputs/slurm_multi_node
    --resume=auto
)
newest() { readlink -- outputs/slurm_multi_node/checkpoints/last || true; }
before=$(newest)

# Each process reads its rank from SLURM's variables. On a signal (SIGUSR1 before the time limit,
# SIGTERM at preemption) training saves and exits with 75; 138 and 143 are signals that arrived
# before its handlers were installed. None may look like a failure to srun, which would kill the
# processes that are still exiting.
export stopped="logs/.train_$SLURM_JOB_ID.stopped" late="logs/.train_$SLURM_JOB_ID.late"
rm -f "$stopped" "$late"
trap 'rm -f "$stopped" "$late"' EXIT
process() {
    local code=0
    trap 'touch "$late"' USR1
    trap : TERM
    "$@" || code=$?
    case $code in
        75 | 138 | 143)
            touch "$stopped"
            code=0
            ;;
    esac
    return "$code"
}
export -f process

# SLURM's daemon is the launcher on every node. If one process fails, all of them end, and the job.
code=0
srun --kill-on-bad-exit=1 --export=ALL bash -c 'process "$@"' process "${train[@]}" || code=$?

if ((code == 0)) && [[ -e $stopped && -e $late && $(newest) == "$before" ]]; then
    echo "time limit reached before the first checkpoint: raise --time or lower --signal_s" >&2
    code=1
elif ((code == 0)) && [[ -e $stopped ]]; then
    # Requeue the job unless it was canceled.
    state=$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T)
    if [[ $state != COMPLETING && $state != CANCELLED ]]; then
        echo "stopped on request; requeued to continue"
        scontrol requeue "$SLURM_JOB_ID"
    fi
fi
((code == 0)) || exit "$code"
