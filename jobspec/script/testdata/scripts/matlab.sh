#!/bin/csh
#SBATCH --time=1:00:00
#SBATCH --ntasks=1
module load matlab
matlab -nodisplay -r "run('model.m'); exit"
