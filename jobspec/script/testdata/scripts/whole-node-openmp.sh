#!/bin/bash
# OpenMP on all cores of a node, whatever it has.
#SBATCH --job-name=omp
#SBATCH --nodes=1 --exclusive --gres=none
#SBATCH --mem=0
#SBATCH --time=02:00:00
export OMP_NUM_THREADS=$SLURM_CPUS_ON_NODE
./stream
