#!/bin/bash
#SBATCH --time=UNLIMITED
#SBATCH --licenses=ansys:2
#SBATCH --reservation=course
#SBATCH --tmp=100G
ansys -b < in.dat
