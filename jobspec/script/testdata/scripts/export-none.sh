#!/bin/bash
#SBATCH --export=NONE
#SBATCH --get-user-env
#SBATCH --chdir=/scratch/ada/run7
./run.sh
