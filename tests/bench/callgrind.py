"""Reads what callgrind writes: instructions by function, of its own and with all that it calls.

The format: https://valgrind.org/docs/manual/cl-format.html. Names are told once and then by number; a line of costs after
`calls=` is what the call cost, inclusive, and belongs to the caller's inclusive sum alone."""
import collections
import os
import re
import subprocess

SUFFIX = re.compile(r"\.(part|constprop|isra|cold|arch_|avx|default|lto_priv)[\w.]*")


def wrap(program, folder):
    """Makes folder/laplaced, which runs the program under callgrind; `count` and `tell` say what of. Needs valgrind."""
    wrapper = folder / "laplaced"
    wrapper.write_text(f"#!/bin/sh\nexec valgrind --tool=callgrind --callgrind-out-file={folder}/out {program} \"$@\"\n")
    wrapper.chmod(0o755)


def count(pid):
    """Counts anew from here on. A busy machine does it a moment after it has said so."""
    subprocess.run(["callgrind_control", "-z", str(pid)], check=True, capture_output=True)


def tell(pid, folder):
    """What was counted since."""
    subprocess.run(["callgrind_control", "-d", str(pid)], check=True, capture_output=True)
    return Profile(folder / "out.1")


class Profile:
    def __init__(self, path):
        self.own = collections.Counter()        # (object, function): instructions
        self.inclusive = collections.Counter()  # of functions that do not call themselves
        self.calls = collections.Counter()
        self.files = collections.Counter()      # of sources, by their paths as the compiler was told them
        self._names = {"ob": {}, "fn": {}, "fl": {}}
        here, called, n_calls = {"ob": "", "fn": "", "fl": ""}, {}, None
        with open(path) as file:
            for line in file:
                key, is_name, value = line.rstrip("\n").partition("=")
                if line[0] in "+-*0123456789":
                    cost = int(line.split()[1])
                    at = (here["ob"], here["fn"])
                    self.inclusive[at] += cost
                    if n_calls is None:
                        self.own[at] += cost
                        self.files[here["fl"]] += cost
                    else:
                        self.calls[(called.get("ob", here["ob"]), called["fn"])] += n_calls
                        called, n_calls = {}, None
                elif is_name and key in ("ob", "fn"):
                    here[key] = self._name(key, value)
                elif is_name and key in ("fl", "fi", "fe"):  # of the function, of what is inlined in it, and back
                    here["fl"] = self._name("fl", value)
                elif is_name and key in ("cfi", "cfl"):
                    self._name("fl", value)
                elif is_name and key in ("cob", "cfn"):
                    called[key[1:]] = self._name(key[1:], value)
                elif key == "calls":
                    n_calls = int(value.split()[0])

    def _name(self, kind, value):
        number, _, name = value.partition(" ")
        if name:
            self._names[kind][number] = name if kind == "fl" else os.path.basename(name) if kind == "ob" else SUFFIX.sub("", name.split("'")[0])
        return self._names[kind].get(number, number)

    def total(self):
        return sum(self.own.values())

    def with_callees(self, function):
        """Instructions of all calls of a function, by its name in whatever object."""
        return sum(n for (_, fn), n in self.inclusive.items() if fn == function)

    def n_calls(self, function):
        return sum(n for (_, fn), n in self.calls.items() if fn == function)
