#!/bin/sh
#SBATCH -a 9,3,3,1-2
#SBATCH --time=0:45:00
exec ./one "$SLURM_ARRAY_TASK_ID"
