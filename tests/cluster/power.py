"""Disks that can lose their power: each is a file that a loop device has mounted. What no process has synced stands in the kernel's memory alone, and is not in
the file; so a copy of the file, taken while all that write to it stand still, is what the disk has after a cut.

It takes root and loop devices; why_not() says what is missing."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from net import run
from pg import wait_for


class Disk:
    """Mounted at `at`, which is made; of `owner` (uid, gid)."""

    def __init__(self, image, at, owner=(0, 0), megabytes=1024):
        self.image, self.at = pathlib.Path(image), pathlib.Path(at)
        self.at.mkdir(parents=True)
        with open(self.image, "wb") as f:
            f.truncate(megabytes << 20)
        run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.image)
        self.mount()
        (self.at / "lost+found").rmdir()
        os.chown(self.at, *owner)

    def mount(self):
        run("mount", "-o", "loop", self.image, self.at)

    def unmount(self):
        def is_done():
            return subprocess.run(["umount", self.at], capture_output=True).returncode == 0 or not os.path.ismount(self.at)
        wait_for(is_done)

    def keep(self):
        """What would be there after a cut now. The kernel may write meanwhile by itself: then once more."""
        kept = self.image.with_suffix(".kept")
        while True:
            run("cp", "--sparse=always", self.image, kept)
            if subprocess.run(["cmp", "-s", self.image, kept], timeout=120).returncode == 0:
                return

    def lose(self):
        """Nobody has a file of it open any more."""
        self.unmount()
        self.image.with_suffix(".kept").rename(self.image)
        self.mount()

    def close(self):
        self.unmount()
        self.image.unlink()


def why_not():
    if os.getuid() != 0:
        return "only root may mount disks"
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        Disk(folder / "image", folder / "disk", megabytes=16).close()
        return ""
    except (RuntimeError, OSError) as e:
        return f"no loop devices here: {e}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Power:
    """The disks of some servers and instances; fail() cuts the power of those that are named, and has them come back."""

    def __init__(self):
        self.disks = {}

    def add(self, name, image, at, owner=(0, 0)):
        self.disks[name] = Disk(image, at, owner)

    def fail(self, siege, servers, instances):
        lost = [self.disks["s" + s.folder.name] for s in servers] + [self.disks[i.name] for i in instances]
        for server in servers:
            server.process.send_signal(signal.SIGSTOP)
        for instance in [*instances, *instances]:  # what a postmaster has begun meanwhile as well
            instance.signal_all(signal.SIGSTOP)
        for disk in lost:
            disk.keep()
        for victim in [*servers, *instances]:
            victim.kill()
        for disk in lost:
            disk.lose()
        for instance in sorted(instances, key=lambda i: i.is_standby):
            (instance.data / "postmaster.pid").unlink(missing_ok=True)  # this machine did not start anew: its number may be another process's by now
            siege.database.begin(instance, is_waiting=False)
        try:
            wait_for(lambda: all(i.answers() for i in instances), 120)  # they read their logs again, perhaps on a busy machine
        except RuntimeError as e:
            raise RuntimeError("\n".join(f"{i.name}: {(i.home / 'log').read_text()[-2000:]}" for i in instances)) from e
        siege.database.wait_synchronous()
        for server in servers:
            siege.servers.start(server)

    def close(self):
        for disk in self.disks.values():
            disk.close()
