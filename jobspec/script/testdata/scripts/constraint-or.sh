#!/bin/bash
#SBATCH --constraint="a100|h100"
#SBATCH --gres=gpu:1
python infer.py
