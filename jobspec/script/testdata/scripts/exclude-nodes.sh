#!/bin/bash
#SBATCH --nodelist=gpu[01-02]
#SBATCH --exclude=gpu03,gpu[10-12]
#SBATCH -N 2 -n 2 --gpus-per-task=4
srun python train.py
