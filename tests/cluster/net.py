"""Machines for tests, as network namespaces that one bridge joins: cables that can be cut, both ways or one.

    with Net({"a": "10.91.0.1", "b": "10.91.0.2"}) as net:      # the calling thread stands at the bridge, outside of all of them
        with net.inside("a"): ...                               # what is started here runs at a
        net.cut(["a"], ["b"], "both"); net.heal()

Namespaces, bridge and cables are the test's own, and nothing of the machine that runs it is touched. It takes root, `ip` and `iptables`; why_not() says what
is missing. A namespace that a test left when it was killed goes with the next Net."""
import contextlib
import ctypes
import os
import pathlib
import shutil
import subprocess

NEW_NET = 0x40000000
BRIDGE = "10.91.0.254"
WAYS = ("both", "there", "back", "down", "route")
LIBC = ctypes.CDLL(None, use_errno=True)


def run(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
    return done.stdout


def enter(descriptor):
    """The calling thread alone, and what it starts."""
    if LIBC.setns(descriptor, NEW_NET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def why_not():
    """Why there can be no namespaces here; "": there can."""
    if os.getuid() != 0:
        return "only root may make network namespaces"
    missing = [p for p in ("ip", "iptables") if not shutil.which(p)]
    if missing:
        return f"{missing[0]} is not installed"
    name = f"laplaced-{os.getpid()}-probe"
    try:
        run("ip", "netns", "add", name)
        run("ip", "netns", "exec", name, "iptables", "-A", "INPUT", "-s", "10.91.0.1", "-j", "DROP")
        run("ip", "-n", name, "link", "add", "bridge", "type", "bridge")
        return ""
    except (RuntimeError, OSError, subprocess.SubprocessError) as e:
        return f"no network namespaces here: {e}"
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


def sweep():
    """Removes what was left by tests that are gone."""
    for entry in pathlib.Path("/run/netns").glob("laplaced-*-*"):
        if not pathlib.Path(f"/proc/{entry.name.split('-')[1]}").exists():
            subprocess.run(["ip", "netns", "del", entry.name], capture_output=True)


class Net:
    def __init__(self, machines):
        self.machines, self.rules, self.routes, self.downs = machines, [], [], []

    def name(self, machine):
        return f"laplaced-{os.getpid()}-{machine}"

    def __enter__(self):
        sweep()
        self.home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            self.build()
            with self.descriptor("bridge") as bridge:
                enter(bridge.fileno())
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        enter(self.home)
        self.remove()

    def descriptor(self, machine):
        return open(f"/run/netns/{self.name(machine)}", "rb")

    def build(self):
        bridge = self.name("bridge")
        run("ip", "netns", "add", bridge)
        run("ip", "-n", bridge, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", bridge, "addr", "add", f"{BRIDGE}/24", "dev", "bridge")
        for link in ("lo", "bridge"):
            run("ip", "-n", bridge, "link", "set", link, "up")
        for machine, address in self.machines.items():
            name = self.name(machine)
            run("ip", "netns", "add", name)
            run("ip", "-n", bridge, "link", "add", "name", f"to-{machine}", "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "-n", bridge, "link", "set", "dev", f"to-{machine}", "master", "bridge", "up")
            run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                run("ip", "-n", name, "link", "set", link, "up")

    def remove(self):
        for machine in [*self.machines, "bridge"]:
            subprocess.run(["ip", "netns", "del", self.name(machine)], capture_output=True)
        os.close(self.home)

    @contextlib.contextmanager
    def inside(self, machine):
        with self.descriptor(machine) as there, open("/proc/thread-self/ns/net", "rb") as back:
            try:
                enter(there.fileno())
                yield
            finally:
                enter(back.fileno())

    def cut(self, these, those, way):
        """Between each of these and each of those. both: packets are dropped; there, back: those that these send, or get, alone; route: what these send has no way,
        and they are told; down: the cables of these, to whomever."""
        if way == "down":
            for machine in these:
                run("ip", "-n", self.name("bridge"), "link", "set", "dev", f"to-{machine}", "down")
                self.downs.append(f"to-{machine}")
            return
        for one in these:
            for other in those:
                if way == "route":
                    self.route(one, self.machines[other])
                if way in ("both", "there"):
                    self.drop(one, other)
                if way in ("both", "back"):
                    self.drop(other, one)

    def drop(self, sender, receiver):
        rule = (self.name(receiver), self.machines[sender])
        run("ip", "netns", "exec", rule[0], "iptables", "-w", "-A", "INPUT", "-s", rule[1], "-j", "DROP")
        self.rules.append(rule)

    def route(self, machine, address):
        run("ip", "-n", self.name(machine), "route", "add", "blackhole", f"{address}/32")
        self.routes.append((self.name(machine), address))

    def heal(self):
        while self.downs:
            run("ip", "-n", self.name("bridge"), "link", "set", "dev", self.downs.pop(), "up")
        while self.routes:
            name, address = self.routes.pop()
            run("ip", "-n", name, "route", "del", "blackhole", f"{address}/32")
        while self.rules:
            name, address = self.rules.pop()
            run("ip", "netns", "exec", name, "iptables", "-w", "-D", "INPUT", "-s", address, "-j", "DROP")
