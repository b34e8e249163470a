#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1
#SBATCH --constraint=[rack3*2]
srun hostname
