#!/bin/bash
#SBATCH --time=12:00:00 --no-requeue
#SBATCH --signal=RB:USR2@3600
trap 'touch save.now' USR2
python train.py &
wait; wait
