#!/bin/bash
#SBATCH --job-name=assemble
#SBATCH --cpus-per-task=20
#SBATCH --mem=1.5T
#SBATCH --partition=highmem
#SBATCH --time=7-00:00:00
#SBATCH --constraint=bigmem&local-ssd
spades.py -t $SLURM_CPUS_PER_TASK -m 1500 -o out reads.yaml
