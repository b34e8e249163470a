#!/bin/bash
#SBATCH --no-requeue
#SBATCH -t 10:30
./submit-once.sh
