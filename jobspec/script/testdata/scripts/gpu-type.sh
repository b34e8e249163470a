#!/bin/bash
#SBATCH --job-name=bert
#SBATCH --gres=gpu:a100:4
#SBATCH --cpus-per-task=32
#SBATCH --mem=240G
#SBATCH --time=1-12
#SBATCH -o %x-%j.out
torchrun --standalone --nproc_per_node=4 finetune.py
