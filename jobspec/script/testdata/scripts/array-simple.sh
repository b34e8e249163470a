#!/bin/bash
#SBATCH --job-name=sweep
#SBATCH --array=0-99:2%8
#SBATCH --time=30
#SBATCH --mem-per-cpu=4G
#SBATCH --output=out/sweep_%A_%a.log

SEED=$SLURM_ARRAY_TASK_ID
python run.py --seed $SEED
