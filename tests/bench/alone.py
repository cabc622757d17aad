"""What a server pays for a log that it could share and does not: instructions of the shared log's code, of all that it does.

  python3 tests/bench/alone.py OUT FILE [--lines N]       OUT: folder with laplaced and laplacectl; FILE: where a JSON line goes

A server without --log runs under callgrind and answers a /select and a /reward for each line of traffic. What counts is the code of
the sources that are there for a shared log, what is inlined of them elsewhere included."""
import argparse
import os
import pathlib
import re
import shutil
import tempfile

import callgrind
from checks import Server, drive, traffic
from counts import environment
from lines import Lines

BAR = 0.001
SHARED = re.compile(r"server/shared/|server/tenant/shared_|server/task/\w+_shared\.c|server/tenants/registry_(nodes|renewals)\.c")


def measure(args, folder):
    callgrind.wrap(args.out.resolve() / "laplaced", folder)
    (folder / "laplacectl").symlink_to(args.out.resolve() / "laplacectl")
    os.environ.update(environment())
    server, file = Server(folder, folder / "data"), folder / "traffic"
    try:
        traffic(file, args.lines)
        drive(server, "warm", "commit", 4, file)
        callgrind.count(server.process.pid)
        requests = drive(server, "counted", "commit", 4, file)["requests"]
        profile = callgrind.tell(server.process.pid, folder)
    finally:
        server.stop()
    spent = {path[SHARED.search(path).start():]: n for path, n in profile.files.items() if SHARED.search(path)}
    return {"requests": requests, "instructions": profile.total() / requests, "shared": sum(spent.values()) / requests,
            "files": {path: round(n / requests, 1) for path, n in sorted(spent.items(), key=lambda x: -x[1])}}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", type=pathlib.Path)
    p.add_argument("file", type=pathlib.Path)
    p.add_argument("--lines", type=int, default=500)
    args = p.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-alone-", dir=args.file.parent))
    try:
        found = measure(args, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    share = found["shared"] / found["instructions"]
    with Lines(args.file) as emit:
        emit({"bench": "alone", **found, "share": share, "bar": BAR, "is_reached": share <= BAR})
    print(f"without --log {found['shared']:.0f} of {found['instructions']:,.0f} instructions a request are the shared log's: {100 * share:.4f} %; "
          f"the bar is {100 * BAR:.1f} %: {'reached' if share <= BAR else 'NOT reached'}")
    print("\n".join(f"  {n:10.1f}  {path}" for path, n in found["files"].items()))


if __name__ == "__main__":
    main()
