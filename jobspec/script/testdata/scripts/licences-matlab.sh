#!/bin/bash
#SBATCH -J sim
#SBATCH -L matlab:1,simulink:2
#SBATCH --mem=8G
#SBATCH --time=04:00:00
module load matlab
matlab -nodisplay -r "run('sim.m'); exit"
