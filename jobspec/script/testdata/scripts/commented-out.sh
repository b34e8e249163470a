#!/bin/bash
##SBATCH --gpus=8
# SBATCH --mem=8G
#SBATCH --time=1:00:00   # one hour is enough
#
# Runs the small model.

#SBATCH --cpus-per-task=2
python small.py
