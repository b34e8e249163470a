#!/bin/bash
#SBATCH -N 2
#SBATCH --tasks-per-node=2
#SBATCH -o out_%j_%t.txt
#SBATCH -e err_%j.txt
srun ./a.out
