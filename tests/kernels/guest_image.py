# SPDX-License-Identifier: MIT
"""The initial file system of a guest: busybox, the kernel's modules, and the two scripts of the guest.

The guest mounts the host's root folder read-only (by 9p, or hostfs under User Mode Linux), overlays it with a file
system in memory, and makes that its root. So every test program has the same path as on the host and finds the same
libraries. In a guest of another architecture the cross compiler's C library is where its programs look for it.
"""
import shlex
import stat

INIT = """#!/busybox sh
# Process 1 of the guest.
/busybox mkdir -p /proc /sys /dev /lower /upper /root
/busybox mount -t proc proc /proc
/busybox mount -t devtmpfs dev /dev
for module in {modules}; do /busybox insmod /modules/$module.ko || echo "@@ broken insmod $module"; done
{mount_host} ||
  {{ echo "@@ broken the host's files cannot be mounted"; /busybox poweroff -f; }}
/busybox mount -t tmpfs -o size=60% tmpfs /upper
/busybox mkdir /upper/files /upper/work
/busybox mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work overlay /root ||
  {{ echo "@@ broken the host's files cannot be overlaid"; /busybox poweroff -f; }}
/busybox mount -t proc proc /root/proc
/busybox mount -t sysfs sys /root/sys
/busybox mount -t devtmpfs dev /root/dev
/busybox mkdir -p /root/dev/shm /root/dev/pts
/busybox mount -t tmpfs shm /root/dev/shm
/busybox mount -t devpts pts /root/dev/pts
/busybox mount -t tmpfs run /root/run
/busybox chmod 1777 /root/dev/shm /root/tmp
{cgroup}
/busybox mkdir -p /root/run/guest
/busybox cp /busybox /tests.sh /root/run/guest/
{foreign}
/busybox ip link set lo up
echo "@@ kernel $(/busybox uname -r) $(/busybox uname -m)"
/busybox chroot /root /run/guest/busybox sh /run/guest/tests.sh
/busybox poweroff -f
"""

MOUNT_HOST = {
    "qemu": "/busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro host /lower",
    "uml": "/busybox mount -t hostfs -o ro,/ none /lower",
}
# Children of the root group may have a limit on memory, as those that systemd makes.
CGROUP = """/busybox mount -t cgroup2 cgroup /root/sys/fs/cgroup &&
  echo +memory > /root/sys/fs/cgroup/cgroup.subtree_control"""

# Makes the loader, libraries and shell of another architecture available where its programs look for them.
FOREIGN = """/busybox mkdir -p /root/usr/lib/{triple}
/busybox mount --bind /root{libraries} /root/usr/lib/{triple}
/busybox ln -sfn {libraries}/{loader} /root/usr/lib/{loader}
for tool in sh true false cat sleep; do
  /busybox rm -f /root/usr/bin/$tool
  /busybox cp /busybox /root/usr/bin/$tool
done
"""

# run NAME LIMIT USER FOLDER COMMAND runs one test. Its output, the last 40 lines, appears if it fails, is skipped, or
# the guest is verbose.
TESTS = """b=/run/guest/busybox
run() {
  echo "@@ begin $1"
  cd "$4" || cd /
  started=$($b cut -d' ' -f1 /proc/uptime)
  if [ "$3" = root ]; then
    $b timeout -s KILL "$2" $b sh -c "$5" </dev/null >/run/guest/output 2>&1
  else
    $b timeout -s KILL "$2" $b su -s /bin/sh "$3" -c "$5" </dev/null >/run/guest/output 2>&1
  fi
  status=$?
  [ $status -eq 0 ] && [ $verbose = no ] || $b tail -n 40 /run/guest/output | $b cut -c1-400 | $b sed 's/^@@/ @@/'
  echo "@@ end $1 $status $started $($b cut -d' ' -f1 /proc/uptime)"
}
"""


def tests_script(tests, user, scale, verbose):
    """The script that the guest runs: all tests in order, with their time limits multiplied by `scale`."""
    lines = [f"verbose={'yes' if verbose else 'no'}", TESTS]
    for test in tests:
        environment = [*test.environment, f"GUARANTEE_SLOWNESS={max(1, round(scale))}"]
        settings = " ".join(shlex.quote(setting) for setting in environment)
        command = f"exec env {settings} " + " ".join(shlex.quote(word) for word in test.command)
        words = [test.name, str(int(test.timeout * scale)), user, test.folder, command]
        lines.append("run " + " ".join(shlex.quote(word) for word in words))
    lines.append("echo '@@ finished'")
    return "\n".join(lines) + "\n"


def initrd(modules, busybox, script, host="qemu", foreign=None):
    """The bytes of an initial file system. `host`: a key of MOUNT_HOST; `foreign`: the values for FOREIGN, or None."""
    init = INIT.format(modules=" ".join(name for name, _ in modules), cgroup=CGROUP, mount_host=MOUNT_HOST[host],
                       foreign=FOREIGN.format(**foreign) if foreign else "")
    archive = _Archive()
    archive.folder("modules")
    for name, content in modules:
        archive.file(f"modules/{name}.ko", content)
    archive.file("busybox", busybox)
    archive.file("tests.sh", script.encode())
    archive.file("init", init.encode())
    return archive.finish()


class _Archive:
    """Writes a cpio archive of the format "newc", which the kernel unpacks."""

    def __init__(self):
        self.bytes = bytearray()
        self.number = 0

    def folder(self, name):
        self._entry(name, stat.S_IFDIR | 0o755, b"")

    def file(self, name, content):
        self._entry(name, stat.S_IFREG | 0o755, content)

    def finish(self):
        self._entry("TRAILER!!!", 0, b"")
        return bytes(self.bytes)

    def _entry(self, name, mode, content):
        self.number += 1
        fields = [self.number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
        self.bytes += b"070701" + "".join(f"{field:08X}" for field in fields).encode() + name.encode() + b"\0"
        self._pad()
        self.bytes += content
        self._pad()

    def _pad(self):
        self.bytes += b"\0" * (-len(self.bytes) % 4)
