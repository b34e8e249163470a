#!/bin/sh
# What snakemake --cluster-status asks for, as its documentation has it for Slurm.
case $(sacct -X -n -P -o State -j "$1") in
COMPLETED*) echo success ;;
FAILED* | CANCELLED* | TIMEOUT* | OUT_OF_MEMORY* | NODE_FAIL* | PREEMPTED* | BOOT_FAIL* | DEADLINE*) echo failed ;;
*) echo running ;;
esac
