#!/bin/bash
#SBATCH --job-name=coupled --time=1:00:00 -o %x-%j.out -L ansys
#SBATCH --ntasks=1 --cpus-per-task=2 --mem=1G -C cpu
#SBATCH hetjob
#SBATCH -N2 -n3 --gpus-per-task=1 --gres=gpu:a100:2 --mem-per-gpu=16G --exclusive -C 'a100|h100' -L ansys:2,cuda
srun --het-group=0 ./server &
srun --het-group=1 ./trainer
