#!/bin/bash
#SBATCH -J stage1 -t 2:00:00
./stage1 && sbatch stage2.sh
