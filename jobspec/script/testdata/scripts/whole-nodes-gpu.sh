#!/bin/bash
#SBATCH -J llm -N 2 --ntasks-per-node=8 --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --cpus-per-task=12
#SBATCH -t 1-00:00:00
srun python train.py
