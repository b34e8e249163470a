#!/bin/bash
#SBATCH -C "skylake&ib"
#SBATCH -N 1 -n 16
mpirun ./x
