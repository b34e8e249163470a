#!/bin/bash
#SBATCH --job-name=lammps
#SBATCH --ntasks=32
#SBATCH --nodes=1
#SBATCH --mem-per-cpu=2000
#SBATCH --time=12:00:00
module load openmpi lammps
mpirun -np $SLURM_NTASKS lmp -in in.melt
