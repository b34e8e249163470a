#!/bin/bash
#SBATCH -d after:500+5,singleton
#SBATCH -J monitor
#SBATCH --begin=now+1hour
python monitor.py
