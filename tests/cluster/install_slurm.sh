#!/bin/sh
# Installs SLURM from the distribution's packages where it is missing. Exit code 3: it cannot be.
set -eu

complain() {
    echo "make slurm-test: $1" >&2
    exit "$2"
}

[ "$(uname)" = Linux ] || complain "SLURM runs on Linux only; skipped" 3
[ "$(id -u)" = 0 ] || complain "daemons and network namespaces need root; run it as root" 1
missing=
for program in slurmctld slurmd srun munged ip; do
    command -v $program >/dev/null || missing="$missing $program"
done
[ -n "$missing" ] || exit 0
command -v apt-get >/dev/null || complain "no$missing, and no apt-get to install it with; skipped" 3
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    slurmctld slurmd slurm-client munge iproute2 >/dev/null
