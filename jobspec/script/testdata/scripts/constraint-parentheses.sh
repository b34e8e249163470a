#!/bin/bash
#SBATCH --constraint="ib&(a100|h100)"
#SBATCH --gpus-per-node=4 --nodes=1
torchrun --standalone --nproc_per_node=4 train.py
