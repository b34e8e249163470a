#!/bin/bash -l
#SBATCH --nodes=4
#SBATCH --gres=gpu:8
#SBATCH --ntasks-per-node=8
#SBATCH --mem=0
#SBATCH --time=0-02:00:00
#SBATCH --signal=SIGUSR1@90

source activate $1
export NCCL_DEBUG=INFO
export PYTHONFAULTHANDLER=1

srun python3 train.py
