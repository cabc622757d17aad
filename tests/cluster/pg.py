"""PostgreSQL for tests: a primary and its synchronous standbys, on loopback, in a folder of their own.

As a module:

    with Cluster(folder) as pg:      # instances a (the primary) and b
        pg.url                       # all of them; libpq looks for the one that can be written
        pg.kill_primary(); pg.promote(); pg.rejoin()

As a program, for tests in other languages: FOLDER holds all state, and instances outlive the call.

    pg.py FOLDER start [N_STANDBYS] | url | sql TEXT | sql_at INSTANCE TEXT | set NAME VALUE | kill_primary | promote | rejoin | fail_over
          | stop_standbys | start_standbys | start_standbys_alone | freeze_standbys | thaw_standbys | freeze_primary | thaw_primary
          | thaw INSTANCE           | wait SECONDS | end

Commits wait for any one standby (synchronous_standby_names). PostgreSQL refuses to run as root, so root runs it as
the user postgres, or as nobody. Processes are ended by their pid, which PostgreSQL writes into its folder."""

import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time

DATABASE, ROLE = "log", "laplaced"
SETTINGS = {
    "fsync": "on", "synchronous_commit": "on", "hot_standby": "on", "shared_buffers": "32MB",
    "max_connections": "100", "wal_keep_size": "256MB", "wal_sender_timeout": "2s", "wal_receiver_timeout": "2s",
    "wal_retrieve_retry_interval": "200ms", "wal_receiver_status_interval": "1s", "log_parameter_max_length": "0", "autovacuum": "on",
    "logging_collector": "off", "recovery_target_timeline": "latest",
}


def programs():
    """The folder of PostgreSQL's programs, or None: Debian's newest, else what is on the path."""
    for folder in sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: -int(p.parent.name)):
        if (folder / "postgres").exists():
            return folder
    found = shutil.which("postgres")
    return pathlib.Path(found).parent if found else None


def owner():
    """The user that PostgreSQL runs as: None is ourselves."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            pass
    raise RuntimeError("no user to run PostgreSQL as")


def run(program, *args):
    user = owner()
    who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    done = subprocess.run([programs() / program, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/",
                          env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": "/"}, timeout=120, **who)
    if done.returncode != 0:
        raise RuntimeError(f"{program}: {done.stdout[-2000:]}")
    return done.stdout


def free_ports(n):
    """Below the ports that clients are given, so that none of theirs comes in between; processes that start side by side look at others."""
    found = []
    for port in range(21000 + os.getpid() % 600 * 16, 32000):
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == n:
            return found
    raise RuntimeError("no free ports")


def wait_for(what, seconds=30, every=0.02):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(every)
    raise RuntimeError(f"timed out: {what}")


class Instance:
    """One PostgreSQL: its data in FOLDER/NAME/data, its port in FOLDER/NAME/port, its address in FOLDER/NAME/address where that is not loopback's."""

    def __init__(self, folder, name):
        self.home = pathlib.Path(folder) / name
        self.name, self.data = name, self.home / "data"

    @property
    def port(self):
        return int((self.home / "port").read_text())

    @property
    def address(self):
        path = self.home / "address"
        return path.read_text() if path.exists() else "127.0.0.1"

    @property
    def pid(self):
        """None: it does not run."""
        try:
            pid = int((self.data / "postmaster.pid").read_text().split()[0])
            if (pathlib.Path("/proc") / str(pid) / "comm").read_text().strip() == "postgres":
                return pid
        except (OSError, ValueError, IndexError):
            pass
        return None

    @property
    def is_standby(self):
        return (self.data / "standby.signal").exists()

    def sql(self, text, database=DATABASE, user="postgres"):
        return run("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", self.home, "-p", self.port, "-U", user, "-d", database, "-c", text).strip()

    def answers(self):
        try:
            return self.sql("SELECT 1", "postgres") == "1"
        except RuntimeError:
            return False

    def start(self, is_waiting=True):
        user = owner()
        who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        with open(self.home / "log", "a") as log:
            subprocess.Popen([programs() / "postgres", "-D", self.data], stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd="/",
                             env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, start_new_session=True, **who)
        if is_waiting:
            try:
                wait_for(self.answers)
            except RuntimeError as e:
                raise RuntimeError(f"{self.name}: {(self.home / 'log').read_text()[-2000:]}") from e

    def processes(self):
        """The postmaster and its children."""
        pid, found = self.pid, []
        if pid is None:
            return found
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            if parent == pid:
                found.append(int(entry.name))
        return [pid, *found]

    def signal_all(self, number):
        for pid in self.processes():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def kill(self):
        """As a machine that is lost: no process of it does anything any more."""
        pids = self.processes()
        self.signal_all(signal.SIGSTOP)
        pids = sorted({*pids, *self.processes()})
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        wait_for(lambda: not any(is_alive(pid) for pid in pids))
        for left in self.home.glob(".s.PGSQL.*"):  # PostgreSQL takes a dead process that nobody has waited for to be alive
            left.unlink()

    def stop(self):
        pid = self.pid
        if pid is not None:
            self.signal_all(signal.SIGCONT)
            os.kill(pid, signal.SIGINT)
            wait_for(lambda: not is_alive(pid))


def is_alive(pid):
    """A zombie is not: its parent has only not looked yet."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
    try:
        return (pathlib.Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Cluster:
    """Instances a, b, ...; what is known of them stands in the folder, so that another process may go on."""

    def __init__(self, folder, n_standbys=1, net=None):
        """net: a Net (net.py) that has a machine for each instance, named as it is."""
        self.folder, self.n_standbys, self.net = pathlib.Path(folder), n_standbys, net

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.end()

    @property
    def instances(self):
        return [Instance(self.folder, p.parent.name) for p in sorted(self.folder.glob("*/port"))]

    @property
    def standbys(self):
        return [i for i in self.instances if i.is_standby]

    @property
    def primary(self):
        return next(i for i in self.instances if not i.is_standby and (i.data / "PG_VERSION").exists() and i.pid)

    @property
    def url(self):
        hosts = ",".join(f"{i.address}:{i.port}" for i in self.instances)
        return f"postgresql://{ROLE}@{hosts}/{DATABASE}"

    def start(self):
        """An empty database `log` that the role `laplaced` owns, and standbys that have all of it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        user = owner()
        names = [chr(ord("a") + i) for i in range(1 + self.n_standbys)]
        for name, port in zip(names, free_ports(len(names))):
            (self.folder / name).mkdir(exist_ok=True)
            (self.folder / name / "port").write_text(str(port))
            if self.net:
                (self.folder / name / "address").write_text(self.net.machines[name])
            if user:
                os.chown(self.folder / name, user.pw_uid, user.pw_gid)
        if user:
            make_way(self.folder)
        first, *others = self.instances
        run("initdb", "-D", first.data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        if self.net:
            with open(first.data / "pg_hba.conf", "a") as f:
                f.write("host all all samenet trust\nhost replication all samenet trust\n")
        for other in others:
            run_copy(first.data, other.data)
        self.configure(first)
        for other in others:
            self.configure(other)
            self.make_standby(other)
        self.begin(first)
        for other in others:
            self.begin(other, is_waiting=False)
        for text in (f"CREATE ROLE {ROLE} LOGIN IN ROLE pg_read_all_stats", f"CREATE DATABASE {DATABASE} OWNER {ROLE}"):
            first.sql(text, "postgres")
        for other in others:
            wait_for(other.answers)
        if others:
            self.wait_synchronous()

    def begin(self, instance, is_waiting=True):
        """Starts it, on its machine."""
        with self.net.inside(instance.name) if self.net else contextlib.nullcontext():
            instance.start(is_waiting)

    def configure(self, instance):
        """No commit waits for an instance that it is itself, so all have the same list."""
        names = ", ".join(i.name for i in self.instances)
        settings = {**SETTINGS, "port": instance.port, "unix_socket_directories": instance.home, "cluster_name": instance.name,
                    "listen_addresses": instance.address}
        if len(self.instances) > 1:
            settings["synchronous_standby_names"] = f"ANY 1 ({names})"
        write(instance.data / "postgresql.auto.conf", "".join(f"{k} = '{v}'\n" for k, v in settings.items()))

    def conninfo(self, instance, others):
        hosts, ports = ",".join(i.address for i in others), ",".join(str(i.port) for i in others)
        return (f"host={hosts} port={ports} user=postgres application_name={instance.name} connect_timeout=2"
                " target_session_attrs=read-write")

    def make_standby(self, instance):
        """It looks for whichever of the others can be written."""
        others = [i for i in self.instances if i.name != instance.name]
        with open(instance.data / "postgresql.auto.conf", "a") as f:
            f.write(f"primary_conninfo = '{self.conninfo(instance, others)}'\n")
        write(instance.data / "standby.signal", "")

    def n_synchronous(self):
        return int(self.primary.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync','quorum') AND state='streaming'"))

    def wait_synchronous(self, n=1):
        wait_for(lambda: self.n_synchronous() >= n)

    def kill_primary(self, dead=None):
        """Its folder stays: it is no primary any more, but may be looked at."""
        dead = dead or self.primary
        dead.kill()
        write(dead.home / "dead", "")
        return dead

    def promote(self):
        """The standby that has most, as any failover has to choose; the others follow it from then on."""
        best = max((i for i in self.standbys if i.pid), key=lambda i: int(i.sql("SELECT coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0'::pg_lsn")))
        best.sql("SELECT pg_promote(true, 30)")
        wait_for(lambda: best.sql("SELECT NOT pg_is_in_recovery()") == "t" and not best.is_standby)
        for other in self.standbys:
            other.sql(f"ALTER SYSTEM SET primary_conninfo = '{self.conninfo(other, [best])}'")
            other.sql("SELECT pg_reload_conf()")
        return best

    def rejoin(self):
        """Those that were killed come back as standbys, from a copy of the primary."""
        for instance in self.instances:
            if not (instance.home / "dead").exists():
                continue
            shutil.rmtree(instance.data)
            primary = self.primary
            patient = f"host={primary.home} port={primary.port} user=postgres options='-c wal_sender_timeout=60s'"  # a busy machine copies for seconds
            run("pg_basebackup", "-D", instance.data, "-d", patient, "-c", "fast", "--no-sync")
            self.configure(instance)
            self.make_standby(instance)
            (instance.home / "dead").unlink()
            self.begin(instance)
        self.wait_synchronous()

    def set(self, name, value):
        """A setting of the primary, while it runs."""
        primary = self.primary
        primary.sql(f"ALTER SYSTEM SET {name} = '{value}'")
        primary.sql("SELECT pg_reload_conf()")
        wait_for(lambda: primary.sql(f"SHOW {name}") == value)

    def fail_over(self):
        self.kill_primary()
        self.promote()
        self.rejoin()

    def end(self):
        for instance in self.instances:
            instance.signal_all(signal.SIGCONT)
        for instance in [i for i in self.instances if not i.is_standby] + self.standbys:
            instance.kill()


def make_way(folder):
    """Lets PostgreSQL's user pass through temporary folders that are ours alone."""
    for path in [folder, *folder.resolve().parents]:
        if path.stat().st_uid == os.getuid() and path != pathlib.Path("/") and not path.stat().st_mode & 0o001:
            path.chmod(path.stat().st_mode | 0o011)


def write(path, text):
    """A file of PostgreSQL's user."""
    path.write_text(text)
    user = owner()
    if user:
        os.chown(path, user.pw_uid, user.pw_gid)


def run_copy(source, target):
    """A copy of a data folder that is shut down, of the same owner and mode."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    user = owner()
    for path in [target, *target.rglob("*")]:
        if user:
            os.chown(path, user.pw_uid, user.pw_gid)
    target.chmod(0o700)


def main(folder, command, *args):
    pg = Cluster(folder)
    if command == "start":
        Cluster(folder, int(args[0]) if args else 1).start()
    elif command == "url":
        print(pg.url)
    elif command == "sql":
        print(pg.primary.sql(args[0]))
    elif command == "sql_at":
        print(Instance(folder, args[0]).sql(args[1]))
    elif command == "thaw":
        Instance(folder, args[0]).signal_all(signal.SIGCONT)
    elif command in ("freeze_primary", "thaw_primary"):
        pg.primary.signal_all(signal.SIGSTOP if command == "freeze_primary" else signal.SIGCONT)
        if command == "thaw_primary":
            pg.wait_synchronous()
    elif command == "wait":
        time.sleep(float(args[0]))
    elif command == "set":
        pg.set(*args)
    elif command == "promote":
        print(pg.promote().name)
    elif command in ("kill_primary", "rejoin", "fail_over", "end"):
        getattr(pg, command)()
    elif command == "stop_standbys":
        for standby in pg.standbys:
            standby.stop()
    elif command in ("start_standbys", "start_standbys_alone"):
        for standby in pg.standbys:
            standby.start()
        if command == "start_standbys":
            pg.wait_synchronous()
    elif command in ("freeze_standbys", "thaw_standbys"):
        for standby in pg.standbys:
            standby.signal_all(signal.SIGSTOP if command == "freeze_standbys" else signal.SIGCONT)
        if command == "thaw_standbys":
            pg.wait_synchronous()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
