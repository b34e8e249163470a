#!/bin/bash
#SBATCH --begin=now+2hours
#SBATCH --deadline=now+2days
#SBATCH --time=0:30:0
./nightly
