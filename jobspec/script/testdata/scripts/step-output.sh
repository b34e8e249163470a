#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=4
# Output of a step, as one file and as one for each rank.
nvidia-smi > before.txt
timeout 3600 srun --export=ALL,OMP_NUM_THREADS=4 python train.py \
  > train.log 2>&1 2>> appended.log < in.txt &> /dev/null >& both.log 2> err-$SLURM_PROCID | tee "tee.log"
