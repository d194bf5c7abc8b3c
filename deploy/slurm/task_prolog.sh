#!/bin/bash
# TaskProlog of Slurm: its output sets variables of the task. The ranks find the node's processor by this one.
set -u
socket="${ARGUS_ROOT:-/run/argus}/job-${SLURM_JOB_ID:-none}/processor.sock"
[ -S "$socket" ] && echo "export ARGUS_SOCKET=$socket"
exit 0
