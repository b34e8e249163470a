#!/bin/bash
#SBATCH -N 2 --ntasks-per-node=2
srun ./preprocess
srun ./train
