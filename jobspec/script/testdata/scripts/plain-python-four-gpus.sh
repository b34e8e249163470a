#!/bin/bash
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=16
#SBATCH --mem=120G
#SBATCH --time=8:00:00
source ~/venv/bin/activate
python train.py --devices 4
