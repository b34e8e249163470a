#!/bin/bash
trap 'echo the script got USR1' USR1
trap 'echo the script got USR2; exit 7' USR2
bash -c 'trap "echo the program got USR1" USR1; echo ready; while :; do sleep 0.1; done' &
while :; do wait; done
