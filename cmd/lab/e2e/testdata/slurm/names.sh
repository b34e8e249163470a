#!/bin/bash
# What users do under Slurm's names, on a cluster of rota dev.
until_says() { until grep -qs "$1" job.out; do sleep 0.1; done; }
id=$(sbatch --parsable --mem=64M -o job.out job.sh)
until_says ready
scancel --signal USR1 --batch "$id"
until_says USR1
scancel "$id" --signal=10 --full
until_says 'program got USR1'
scancel -b -s USR2 "$id"
rota wait "$id"
echo "the script ended with $?"
srun -n 2 --mem=64M -Q sh -c 'echo "rank $SLURM_PROCID of $SLURM_NTASKS"' 2>srun.err | sed 's/^.*rank/rank/' | sort
srun --mem=64M sh -c 'exit 3'
echo "srun ended with $?"
sbatch -W --mem=64M -o job.out --wrap 'exit 5' >/dev/null
echo "sbatch ended with $?"
gone=$(sbatch --parsable -M rota --mem=64M -J gone -o job.out --wrap 'sleep 600')
echo "of ${gone#*;}"
scancel --name gone --me
rota wait "${gone%;*}" 2>/dev/null || rota status "${gone%;*}" | grep -o CANCELLED | head -n 1
scancel 99999
echo "scancel ended with $?"
