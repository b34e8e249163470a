#!/bin/bash
#SBATCH -J try-lr -q te -t1:00:00 -c8 --mem=64G -G1
#SBATCH -N1 -n1 -p debug
python train.py --lr 3e-4 --steps 500
