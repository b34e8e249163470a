#!/usr/bin/env python3
#SBATCH --cpus-per-task=4
#SBATCH --mem=8G
import os
print(os.environ["SLURM_JOB_ID"])
