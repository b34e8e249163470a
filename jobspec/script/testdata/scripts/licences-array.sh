#!/bin/bash
#SBATCH --array=1-40
#SBATCH --licenses=ansys
#SBATCH -c 4
ansys -b -np 4 < case_${SLURM_ARRAY_TASK_ID}.inp
