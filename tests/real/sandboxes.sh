#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# sandboxes: setpriv, unshare and bubblewrap, which drop rights or enter namespaces and then run a program; and a
# program that drops its own rights after it has freed memory. In every thread the rights are the same as without tarn.
. "$(dirname "$0")/common.sh"
need python3 python3
need setpriv util-linux
need unshare util-linux
# The interpreter itself, because python3 in PATH may be a script that starts other programs.
python=$(python3 -c 'import sys; print(sys.executable)')
[ -x /usr/bin/python3 ] && python=/usr/bin/python3 # any user may run it

cat >rights.py <<'CODE'
import os, sys
with open("/proc/self/maps") as maps:
    if os.environ.get("LD_PRELOAD", "") not in maps.read():
        sys.exit("the library is not loaded")
blocks = [bytearray(500_000) for _ in range(100)]
del blocks
if sys.argv[1:] == ["drop"]:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
fields = ("Uid:", "Gid:", "Groups:", "CapEff:", "CapPrm:", "CapBnd:", "NoNewPrivs:", "Seccomp:")
seen = set()
for task in os.listdir("/proc/self/task"):
    with open(f"/proc/self/task/{task}/status") as status:
        seen.add("".join(line for line in status if line.startswith(fields)))
print(*sorted(seen), sep="\n")
CODE
chmod 755 "$work"
chmod 644 rights.py

# check NAME COMMAND…: compares the rights after the command. A command that fails without tarn is left out.
checked=()
check() {
  local what=$1
  shift
  without 60 "$@" >"$what.without" 2>/dev/null || return 0
  # Not by `with`: after the change of user, the loader could not write its log.
  LD_PRELOAD=$TARN_LIB timeout -k 5 60 "$@" >"$what.with" || fail "$what fails with tarn (status $?)"
  compare "rights after $what" "$what.without" "$what.with"
  checked+=("$what")
}
check setpriv setpriv --no-new-privs "$python" rights.py
check setpriv-user setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -all "$python" rights.py
check unshare unshare --user --map-root-user --mount --net "$python" rights.py
check program "$python" rights.py drop
command -v bwrap >/dev/null && check bubblewrap bwrap --ro-bind / / --proc /proc --dev /dev --unshare-all \
  --cap-drop ALL --bind "$work" "$work" "$python" "$work/rights.py"
[ ${#checked[@]} != 0 ] || skip "this user may run none of these commands"
same "${checked[*]}"
