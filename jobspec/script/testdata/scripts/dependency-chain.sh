#!/bin/bash
#SBATCH --job-name=eval
#SBATCH --dependency=afterok:1234:1235,afterany:1300
#SBATCH --kill-on-invalid-dep=no
#SBATCH --time=1:00:00
python evaluate.py --checkpoint ckpt/last.pt
