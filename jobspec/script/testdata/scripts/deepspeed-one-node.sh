#!/bin/bash
#SBATCH --gpus-per-node=8 --nodes=1 --ntasks-per-node=1 --cpus-per-task=64
#SBATCH --mem=500G
cat > ds.json <<JSON
#SBATCH --this-is-text
{ "zero_optimization": { "stage": 2 } }
JSON
deepspeed --num_gpus 8 train.py --deepspeed ds.json
