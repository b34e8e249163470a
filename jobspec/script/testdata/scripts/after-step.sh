#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=2
#SBATCH -t 1:00:00
SCRATCH=/scratch/$USER/$SLURM_JOB_ID
mkdir -p $SCRATCH
cp input.dat $SCRATCH/
srun ./sim $SCRATCH/input.dat
tar czf results.tgz $SCRATCH
