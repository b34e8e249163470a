#!/bin/bash
#SBATCH --gres=gpu:2,nvme:1
#SBATCH -C "a100|h100"
python train.py
