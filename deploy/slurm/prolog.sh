#!/bin/bash
# Prolog of Slurm: start a host processor for the job's user on this node.
# slurm.conf: Prolog=…/prolog.sh  Epilog=…/epilog.sh  TaskProlog=…/task_prolog.sh
# A prolog that fails drains the node: whatever goes wrong here is one line in the log, never an exit code.
set -u
: "${SLURM_JOB_ID:=}" "${SLURM_JOB_UID:=}"
ARGUS_ROOT=${ARGUS_ROOT:-/run/argus}
ARGUS_BIN=${ARGUS_BIN:-argus}

start() {
    [ -n "$SLURM_JOB_ID" ] && [ -n "$SLURM_JOB_UID" ] || return 0
    command -v "$ARGUS_BIN" > /dev/null || return 1
    local folder="$ARGUS_ROOT/job-$SLURM_JOB_ID" as_user=()
    mkdir -p "$ARGUS_ROOT" && mkdir -p -m 0700 "$folder" && chown "$SLURM_JOB_UID" "$folder" || return 1
    # ARGUS_KEY=…, ARGUS_SERVER=…
    if [ -r /etc/argus/processor.env ]; then
        set -a
        # shellcheck disable=SC1091
        . /etc/argus/processor.env
        set +a
    fi
    if [ "$(id -u)" != "$SLURM_JOB_UID" ]; then
        as_user=(setpriv --reuid "$SLURM_JOB_UID" --regid "${SLURM_JOB_GID:-$SLURM_JOB_UID}" --clear-groups)
    fi
    # The folder is the user's, who may have put links into it: root opens nothing there, and its own note lies beside it.
    # shellcheck disable=SC2016
    setsid "${as_user[@]}" bash -c 'exec "$@" < /dev/null > "$0" 2>&1' "$folder/processor.log" \
        "$ARGUS_BIN" processor --socket "$folder/processor.sock" &
    echo "$!" > "$folder.pid"
}

start || echo "argus prolog: no processor for job $SLURM_JOB_ID" >&2
exit 0
