#!/bin/bash
#SBATCH --ntasks=16 --ntasks-per-node=8
#SBATCH --gpus=16 --cpus-per-gpu=4
srun --label python train.py
