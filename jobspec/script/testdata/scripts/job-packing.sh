#!/bin/bash
#SBATCH --nodes=1
#SBATCH --ntasks=4
#SBATCH --cpus-per-task=2
#SBATCH --gpus=4
for i in 0 1 2 3; do
  CUDA_VISIBLE_DEVICES=$i srun -N1 -n1 -c2 --exclusive python task.py $i &
done
wait
