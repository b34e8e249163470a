#!/bin/bash
#SBATCH --job-name=plain
#SBATCH --cpus-per-task=8
#SBATCH --time=01:00:00
module load gcc
./solver input.dat
