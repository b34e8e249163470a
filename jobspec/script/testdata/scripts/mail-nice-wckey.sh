#!/bin/bash
#SBATCH --mail-type=BEGIN,END,FAIL,TIME_LIMIT_80
#SBATCH --mail-user=ada@example.org
#SBATCH --nice=100
#SBATCH --wckey=thesis
python x.py
