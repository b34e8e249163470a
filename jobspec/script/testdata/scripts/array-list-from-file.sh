#!/bin/bash
#SBATCH --array=1,3,5,7-12
#SBATCH -c 2
CONFIG=$(sed -n "${SLURM_ARRAY_TASK_ID}p" configs.txt)
./simulate --config "$CONFIG" > "result_${SLURM_ARRAY_TASK_ID}.txt"
