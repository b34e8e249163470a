#!/bin/bash
#SBATCH --signal=TERM@120
#SBATCH --time=0-6
trap 'echo stopping; kill -TERM $child; wait $child' TERM
./server --port 8080 &
child=$!
wait $child
