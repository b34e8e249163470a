#!/bin/bash
#SBATCH --job-name=cfd
#SBATCH --nodes=8
#SBATCH --ntasks=256
#SBATCH --constraint=ib
#SBATCH --time=1-00:00:00
#SBATCH --hint=nomultithread

module load gcc openmpi
export OMP_NUM_THREADS=1
srun --mpi=pmix ./solver input.nml
