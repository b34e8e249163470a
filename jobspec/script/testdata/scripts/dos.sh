#!/bin/bash
#SBATCH --time=30
#SBATCH --job-name="from windows"
echo hi
