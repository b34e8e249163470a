#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8
SRUN_ARGS="--wait=60 --kill-on-bad-exit=1"
srun $SRUN_ARGS python train.py
