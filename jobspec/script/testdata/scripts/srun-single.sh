#!/bin/bash
#SBATCH --ntasks=1 --cpus-per-task=4
#SBATCH --gres=gpu:1
module load anaconda3
srun --unbuffered \
     python train.py | tee train.log
srun python test.py
