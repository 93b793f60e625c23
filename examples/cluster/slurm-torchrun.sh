#!/bin/bash
# One training on all GPUs of several machines of a Slurm cluster; submitted again, it goes on from its last checkpoint.
#
#     mptctl split cifar100 --data-root /shared/data --run-root /shared/runs        # once, and the teachers:
#     mptctl train-old --run-root /shared/runs
#     mptctl train-ref --run-root /shared/runs
#     sbatch slurm-torchrun.sh
#
# Shared, under one path on all machines: the run root, which holds the split, the teachers and the run, and which the
#   first worker writes; and the data, of which a local copy under the same path does as well.
# Not shared: Python and the packages, whose versions are the same everywhere; nothing is written into home folders.
#SBATCH --job-name=mptctl
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=32
#SBATCH --time=12:00:00
#SBATCH --signal=TERM@120
set -euo pipefail

run_root=/shared/runs
name=mpt-kl
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# The batch is that of all GPUs together; its statistics and its learning rate are as on one.
settings=(--set optim.batch_size=1024 --set optim.lr_for_batch=128 --set optim.warmup_epochs=5
  --set runtime.sync_batchnorm=true)
if [ -e "$run_root/$name/last.pt" ]; then settings+=(--resume); fi

srun torchrun --nnodes "$SLURM_NNODES" --nproc-per-node "$SLURM_GPUS_ON_NODE" \
  --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$first:29500" \
  -m mptctl train-mpt --distance kl --run-root "$run_root" --name "$name" "${settings[@]}"
