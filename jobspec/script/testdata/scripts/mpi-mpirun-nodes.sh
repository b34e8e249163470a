#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=16
#SBATCH --time=04:00:00
module load intel-mpi
mpirun ./wrf.exe
