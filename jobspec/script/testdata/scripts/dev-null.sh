#!/bin/bash
#SBATCH --output=/dev/null
#SBATCH --array=1-3
python quiet.py
