#!/bin/bash
#SBATCH --export=ALL,WANDB_MODE=offline,HF_TOKEN
python train.py
