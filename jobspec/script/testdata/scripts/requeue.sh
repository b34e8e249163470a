#!/bin/bash
#SBATCH --job-name=long
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300

resubmit() {
  echo "$(date): saving and going on later"
  touch save.now
  wait $pid
  scontrol requeue $SLURM_JOB_ID
}
trap resubmit USR1

python train.py --resume auto &
pid=$!
wait $pid
