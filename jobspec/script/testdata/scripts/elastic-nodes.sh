#!/bin/bash
#SBATCH --nodes=2-4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
srun torchrun --nproc_per_node=8 train.py
