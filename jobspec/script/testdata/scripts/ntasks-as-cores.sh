#!/bin/bash
#SBATCH -n 8
#SBATCH --mem=16G
python -c "import multiprocessing as m; print(m.cpu_count())"
