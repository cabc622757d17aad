"""JSON lines of a bench, and what else the machine did meanwhile: figures of a busy hour look like those of a quiet one."""
import json
import os
import pathlib

# Of whatever a bench starts: OpenBLAS's other threads, which nobody here asks for anything, look for work for a tenth of a second when
# they are made. In a load program at real-time priority they kept the kernel from syncing the disk as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


class Lines:
    """Writes a line for each measurement, with the load average when it began: that is, when the line before was written."""
    def __init__(self, path, is_shown=False):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file, self.is_shown, self.load = open(path, "w"), is_shown, os.getloadavg()[0]

    def __call__(self, line):
        text = json.dumps({**line, "load": round(self.load, 2)})
        self.file.write(text + "\n")
        self.file.flush()
        if self.is_shown:
            print(text, flush=True)
        self.load = os.getloadavg()[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


def busy_s():
    """Seconds of processor time that all programs together, and the hypervisor's other guests, have had of this machine."""
    user, nice, system, _, _, irq, softirq, steal = map(int, pathlib.Path("/proc/stat").read_text().split(None, 9)[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
