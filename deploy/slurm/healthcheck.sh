#!/bin/bash
# HealthCheckProgram of Slurm: 0 ok, 1 warning, 2 critical, from what the host processor measured last.
# It only says; draining a node stays with the site's own rules. It needs a processor that outlives the jobs, on a port it
# knows: argus-processor@USER with METRICS_PORT=9321 in /etc/argus/processor.env.
set -u
port=${1:-9321}
metrics=$(curl --silent --fail --max-time 5 "http://127.0.0.1:$port/metrics") || {
    echo "argus: no processor answers on port $port"
    exit 1
}
count() {
    awk -v name="argus_collector_kernel_events_total{kind=\"$1\"}" '$1 == name {print int($2)}' <<< "$metrics"
}
for kind in xid sxid; do
    seen=$(count "$kind")
    if [ "${seen:-0}" -gt 0 ]; then
        echo "argus: $seen $kind errors in the kernel log"
        exit 2
    fi
done
seen=$(count aer)
if [ "${seen:-0}" -gt 0 ]; then
    echo "argus: $seen PCIe errors in the kernel log"
    exit 1
fi
exit 0
