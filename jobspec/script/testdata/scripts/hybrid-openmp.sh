#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --mem-per-cpu=1500M
#SBATCH --time=2:30:00

export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
export OMP_PLACES=cores
srun -n $SLURM_NTASKS -c $SLURM_CPUS_PER_TASK ./hybrid.x
