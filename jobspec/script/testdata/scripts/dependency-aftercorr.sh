#!/bin/bash
#SBATCH --array=0-15
#SBATCH --dependency=aftercorr:888
python post.py $SLURM_ARRAY_TASK_ID
