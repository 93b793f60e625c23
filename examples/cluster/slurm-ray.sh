#!/bin/bash
# A study on several machines of a Slurm cluster, as a Ray cluster for its time; one run to a GPU.
# Submitted again, it trains what is missing.
#
#     ray get-auth-token --generate        # once: the machines ask each other for it
#     sbatch slurm-ray.sh
#
# Shared, under one path on all machines: the run root, in which each run saves, on a file system with locks; the data,
#   of which a local copy under the same path does as well; and ~/.ray/auth_token, as home folders mostly are.
# Not shared: Python and the packages, whose versions are the same everywhere, and /tmp, where Ray keeps its own.
# A machine that is lost loses no run (--no-kill keeps the job): what ran there goes on elsewhere.
#SBATCH --job-name=mptctl-study
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00
#SBATCH --no-kill
set -euo pipefail

export RAY_AUTH_MODE=token
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address="$first:6379"

srun --no-kill ray symmetric-run --address "$address" --min-nodes "$SLURM_NNODES" \
  --num-cpus "$SLURM_CPUS_PER_TASK" --num-gpus "$SLURM_GPUS_ON_NODE" -- \
  mptctl study cifar100-r18 --data-root /shared/data --run-root /shared/runs/cifar100-r18 \
  --ray-address "$address"
