#!/bin/bash
#SBATCH --begin=2026-12-24T20:00:00
#SBATCH --deadline=2026-12-25T08:00:00
#SBATCH --time=2:00:00
#SBATCH --hold
./backup.sh
