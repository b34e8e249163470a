#!/bin/bash
#SBATCH --gpus=rtx_3090:2
#SBATCH --cpus-per-gpu=6
#SBATCH --mem-per-gpu=40G
#SBATCH -t 90
python -m accelerate.commands.launch --num_processes 2 train.py
