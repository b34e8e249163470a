#!/bin/bash
#SBATCH --mail-type=BEGIN,END,FAIL
#SBATCH --mail-user=ada@example.org
#SBATCH --comment="second run, with the fixed tokenizer"
#SBATCH --nice=100
#SBATCH --cpu-freq=high
python train.py
