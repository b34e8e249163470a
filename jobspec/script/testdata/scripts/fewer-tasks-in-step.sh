#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=8
srun --ntasks-per-node=1 torchrun --nproc_per_node=8 --nnodes=2 train.py
