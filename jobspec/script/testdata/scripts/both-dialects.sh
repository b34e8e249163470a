#!/bin/bash
#SBATCH -p gpu-long
#SBATCH -q normal
#SBATCH -t 3-00
#ROTA --queue=train --class=be
#ROTA --priority=60
python train.py
