#!/bin/bash
# Epilog of Slurm: end the job's host processor, give it time to send what it still has, remove its folder.
set -u
: "${SLURM_JOB_ID:=}"
ARGUS_ROOT=${ARGUS_ROOT:-/run/argus}
ARGUS_GRACE_S=${ARGUS_GRACE_S:-20}

stop() {
    local folder="$ARGUS_ROOT/job-$SLURM_JOB_ID" pid
    [ -n "$SLURM_JOB_ID" ] && [ -d "$folder" ] || return 0
    pid=$(cat "$folder.pid" 2> /dev/null)
    # The number may belong to another process by now: it must still be ours.
    if [[ "$pid" =~ ^[0-9]+$ ]] && tr '\0' ' ' < "/proc/$pid/cmdline" 2> /dev/null | grep -q "$folder/processor.sock"; then
        kill -TERM "$pid"
        for _ in $(seq "$((ARGUS_GRACE_S * 10))"); do
            [ -d "/proc/$pid" ] || break
            sleep 0.1
        done
    fi
    rm -rf -- "$folder" "$folder.pid"
}

stop || echo "argus epilog: the processor of job $SLURM_JOB_ID did not end" >&2
exit 0
