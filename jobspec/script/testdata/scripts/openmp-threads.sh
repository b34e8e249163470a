#!/bin/bash
#SBATCH --job-name=omp
#SBATCH --nodes=1 --ntasks=1 --cpus-per-task=16
#SBATCH --mem=16384
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
./nbody 1000000
