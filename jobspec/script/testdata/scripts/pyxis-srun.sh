#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=8 --gpus-per-node=8
#SBATCH --time=4:00:00
srun --container-image=/shared/images/nemo --container-mounts=/shared:/shared python -u /opt/train.py
