"""A bare Debian with something in the place of systemd: it starts and stops the service as its unit says, and hears what it tells.

What is installed runs unchanged, dpkg's scripts and deb-systemd-invoke included. `systemctl` in the chroot hands its words on to the
class `Manager`. Not enforced is the unit's sandbox: that is the business of tests/http/u00_systemd.py.
"""
import os
import pathlib
import re
import shlex
import socket
import subprocess
import threading

# What concerns files alone is the real one's business. Else it waits for the answer, a status.
SYSTEMCTL = """#!/bin/sh
case " $* " in *" preset "* | *" enable "* | *" disable "* | *" is-enabled "*) SYSTEMD_OFFLINE=1 exec /bin/systemctl.distrib "$@" ;; esac
echo "$*" >/run/manager/ask
read -r status </run/manager/answer
exit "$status"
"""
ENTER = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'


class Chroot:
    def __init__(self, base, folder):
        self.root = pathlib.Path(folder)
        self.root.mkdir()
        subprocess.run(["tar", "-C", self.root, "-xf", base], check=True)
        (self.root / "etc/resolv.conf").write_text(pathlib.Path("/etc/resolv.conf").read_text())
        (self.root / "run/systemd/system").mkdir(parents=True)  # by this scripts know that systemd runs

    def command(self, *command):
        """The process keeps its number, and what it mounts is gone with it."""
        return ["unshare", "-m", "sh", "-c", ENTER, str(self.root), *command]

    def run(self, *command, expect=0, env=None):
        done = subprocess.run(self.command(*command), capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **(env or {})})
        assert expect is None or done.returncode == expect, f"{command}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout + done.stderr

    def user(self, name):
        """(uid, gid), or None."""
        found = re.search(rf"^{name}:[^:]*:(\d+):(\d+):", (self.root / "etc/passwd").read_text(), re.M)
        return found and (int(found[1]), int(found[2]))


class Manager:
    """Does what systemctl asks for a service and the socket of its name, as their files say."""
    SOCKET = "\0laplaced-package-{}"

    def __init__(self, chroot, unit):
        self.chroot, self.unit = chroot, unit
        self.asked, self.told, self.ends, self.faults, self.process, self.listener = [], [], [], [], None, None
        folder = chroot.root / "run/manager"
        folder.mkdir()
        for name in ("ask", "answer"):
            os.mkfifo(folder / name)
        self.folder, self.is_closing = folder, False
        self.is_ready = threading.Event()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.SOCKET.format(os.getpid()))
        for work in (self.hear, self.serve):
            threading.Thread(target=work, daemon=True).start()

    def check(self):
        assert self.faults == [], self.faults

    def stand_in(self):
        """From now on systemctl is ours: what the package systemd has brought is put aside, by dpkg's own means."""
        self.chroot.run("dpkg-divert", "--local", "--rename", "--add", "/bin/systemctl")
        path = self.chroot.root / "bin/systemctl"
        path.write_text(SYSTEMCTL)
        path.chmod(0o755)

    def hear(self):
        while True:
            message = self.socket.recv(4096).decode()
            self.told.append(dict(line.split("=", 1) for line in message.splitlines()))
            if "READY" in self.told[-1]:
                self.is_ready.set()

    def serve(self):
        while not self.is_closing:
            words = (self.folder / "ask").read_text().split()
            self.asked.append([w for w in words if not w.startswith("--")])
            try:
                status = self.answer(self.asked[-1])
            except Exception as fault:  # pylint: disable=broad-except
                self.faults.append(f"{' '.join(self.asked[-1])}: {fault!r}")
                status = 1
            (self.folder / "answer").write_text(f"{status}\n")

    def answer(self, words):
        verb = words[0] if words else ""
        if words[1:] and all(w.endswith(".socket") for w in words[1:]):
            return self.answer_for_socket(verb)
        if verb == "is-active":
            return 0 if self.process is not None else 3
        if verb in ("stop", "restart"):
            self.stop()
        if verb in ("start", "restart") and self.process is None:
            self.start()
        if verb == "reload":
            words = shlex.split(self.one("ExecReload").replace("${MAINPID}", str(self.process.pid)))
            return subprocess.run(self.as_user(*words), stdin=subprocess.DEVNULL, check=False).returncode
        return 0

    def answer_for_socket(self, verb):
        """Kept by us, whatever becomes of the service."""
        if verb == "is-active":
            return 0 if self.listener is not None else 3
        if verb == "start" and self.listener is None:
            host, port = self.one("ListenStream", self.unit.replace(".service", ".socket")).rsplit(":", 1)
            self.listener = socket.create_server((host, int(port)), backlog=4096)
        if verb in ("stop", "restart") and self.listener is not None:
            self.listener.close()
            self.listener = None
        return 0

    # --- the units ---

    def settings(self, unit=None):
        """What the administrator has beside the unit counts behind it."""
        files = [self.chroot.root / "lib/systemd/system" / (unit or self.unit), *(self.chroot.root / f"etc/systemd/system/{unit or self.unit}.d").glob("*.conf")]
        return [tuple(line.split("=", 1)) for path in files for line in path.read_text().splitlines() if re.match("[A-Z][A-Za-z]*=", line)]

    def one(self, name, unit=None):
        """The value, of a list the last; an empty one has begun the list anew."""
        values = [v for n, v in self.settings(unit) if n == name]
        assert len(values) == 1 or values[-2] == "", (name, values)
        return values[-1]

    def environment(self):
        env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "NOTIFY_SOCKET": "@" + self.SOCKET.format(os.getpid())[1:],
               "WATCHDOG_USEC": str(int(self.one("WatchdogSec")) * 1000000)}
        for line in (v for n, v in self.settings() if n == "Environment"):
            env.update(word.split("=", 1) for word in shlex.split(line))
        for line in (v for n, v in self.settings() if n == "EnvironmentFile"):
            path = self.chroot.root / line.lstrip("-").lstrip("/")
            assert line.startswith("-") or path.exists()
            env.update(word.split("=", 1) for word in (path.read_text().split() if path.exists() else []))
        return env

    def as_user(self, *command):
        uid, gid = self.chroot.user(self.one("User"))
        return self.chroot.command("setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", *command)

    def start(self):
        user = self.chroot.user(self.one("User"))
        data = self.chroot.root / "var/lib" / self.one("StateDirectory")
        data.mkdir(exist_ok=True)
        data.chmod(int(self.one("StateDirectoryMode"), 8))
        os.chown(data, *user)
        self.is_ready.clear()
        env, takes, fds = self.environment(), "", ()
        if self.listener is not None:  # descriptor 3, and nothing else open
            fds, env["LISTEN_FDS"] = (self.listener.fileno(),), "1"
            takes = f"exec 3<&{fds[0]}; {'' if fds[0] == 3 else f'exec {fds[0]}<&-; '}export LISTEN_PID=$$;"
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                self.as_user("bash", "-c", f'umask {self.one("UMask")}; {takes} WATCHDOG_PID=$$ exec "$@"', "bash", *shlex.split(self.one("ExecStart"))),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, pass_fds=fds)
        assert self.is_ready.wait(float(self.one("TimeoutStartSec"))), self.log()[-2000:]

    def stop(self):
        if self.process is None:
            return
        self.process.terminate()
        self.ends.append(self.process.wait(float(self.one("TimeoutStopSec"))))
        self.process = None

    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def close(self):
        self.is_closing = True
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.answer_for_socket("stop")
