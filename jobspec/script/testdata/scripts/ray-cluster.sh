#!/bin/bash
#SBATCH --nodes=3 --ntasks-per-node=1 --cpus-per-task=16 --gpus-per-task=1
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
nodes_array=($nodes)
head_node=${nodes_array[0]}
srun --nodes=1 --ntasks=1 -w "$head_node" ray start --head --block &
sleep 10
for ((i = 1; i < SLURM_JOB_NUM_NODES; i++)); do
  srun --nodes=1 --ntasks=1 -w "${nodes_array[$i]}" ray start --address "$head_node:6379" --block &
done
python tune.py
