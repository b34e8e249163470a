#!/bin/bash
#SBATCH --partition=bigmem
#SBATCH --ntasks=1 --cpus-per-task=16
#SBATCH --mem=0
#SBATCH --time=12:00:00
python assemble.py --memory "$SLURM_MEM_PER_NODE"
