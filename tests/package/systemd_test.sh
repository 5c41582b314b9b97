#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# systemd reads the drop-in of examples/systemd without a complaint, and sees its variable. Usage: systemd_test.sh SOURCE SCRATCH
set -eu
source=$1 scratch=$2
if ! command -v systemd-analyze >/dev/null; then
  echo "skipped: systemd-analyze is missing (Debian package systemd)"
  exit 77
fi
rm -rf "$scratch"
mkdir -p "$scratch/tarn-example.service.d"
printf '[Unit]\nDescription=Example\n[Service]\nExecStart=/bin/true\n' >"$scratch/tarn-example.service"
cp "$source/examples/systemd/tarn.conf" "$scratch/tarn-example.service.d/"
complaints=$(SYSTEMD_UNIT_PATH=$scratch systemd-analyze verify --recursive-errors=no tarn-example.service 2>&1) || {
  echo "systemd does not take the drop-in: $complaints"
  exit 1
}
[ -z "$complaints" ] || { echo "systemd complains: $complaints"; exit 1; }
grep -qx 'Environment=LD_PRELOAD=libtarn.so.1' "$scratch/tarn-example.service.d/tarn.conf"
# A wrong word is found; otherwise the check above shows nothing.
sed -i 's/^Environment=/Enviroment=/' "$scratch/tarn-example.service.d/tarn.conf"
if SYSTEMD_UNIT_PATH=$scratch systemd-analyze verify --recursive-errors=no tarn-example.service 2>/dev/null; then
  echo "systemd-analyze accepts a wrong word"
  exit 1
fi
