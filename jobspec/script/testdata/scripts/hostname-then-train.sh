#!/bin/bash
#SBATCH -N 4 --gpus-per-node=4 --ntasks-per-node=4
srun -l hostname
srun nvidia-smi -L
srun --kill-on-bad-exit=1 python train.py
echo "done: $?"
