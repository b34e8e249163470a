#!/bin/bash
#SBATCH --gpus=1
#SBATCH --container-image=nvcr.io#nvidia/pytorch:26.08-py3
python train.py
