#!/bin/bash
#SBATCH --job-name=container
#SBATCH --gpus=1
#SBATCH --mem=48GB
#SBATCH --time=6:00:00
module load singularity
singularity exec --nv --bind /data:/data pytorch_24.07.sif python /workspace/train.py
