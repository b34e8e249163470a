#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gpus-per-node=8
#SBATCH --container-image=/shared/images/pytorch-26.08
#SBATCH --container-mounts=/shared/data:/data:ro,/shared/ckpt:/ckpt
#SBATCH --container-workdir=/workspace
torchrun --nproc_per_node=8 train.py --data /data --save /ckpt
