#!/bin/bash
#SBATCH --dependency=afterok:11?afterok:12?afterok:13_4
python merge.py
