"""Counts the files of the server that a `/select` and a `/reward` enter on their way from the socket to the tenant's queue. A server of MODE=walk writes down each
function that it enters (trace.c); what the thread of the connection enters between the library's call for the request line and the queue is the walk.

  python3 tests/walk/walk.py BUILD check|record|show     BUILD: such as build/walk

The request is the plain one: a JSON body, a tenant in memory, a key that the API made, a log of the server's own, not the first request of its connection. walks.json has
the files of each walk, in the order in which they are entered, and the number of its stays (a stay ends when a function of another file is entered). check fails when a walk
enters another file or has more stays, and when fewer of either are not recorded: so their number can only shrink. show names the functions, too. Functions of core/ are not
followed; those of base/ and types/, by which all rooms say what they say (clocks, texts, problems), are not counted; a function that stands in a header counts where it is included."""
import http.client
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
RECORD = HERE / "walks.json"
BELOW = ("base/", "types/")
FIRST, LAST = "ld_connection_target", "ld_tenant_submit"


def call(connection, key, path, body, expect=200):
    """Head and body in one piece, so that they come in one round of the connection's thread."""
    text = json.dumps(body)
    head = [f"POST {path} HTTP/1.1", "Host: walk", "Content-Type: application/json", f"Content-Length: {len(text)}"] + ([f"Authorization: Bearer {key}"] if key else [])
    connection.sendall(("\r\n".join(head) + "\r\n\r\n" + text).encode())
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    said = answer.read()
    assert answer.status == expect, said
    return json.loads(said)


def play(build, folder):
    """Three decisions and their rewards on one connection: the trace, as (thread, address) in order."""
    trace = folder / "trace"
    command = [str(build / "laplaced"), "--data", str(folder / "data"), "--listen", "127.0.0.1:0", "--threads", "1", "--log-requests", "none"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, "LAPLACED_WALK": str(trace)}) as server:
        try:
            port = int(server.stdout.readline().split()[3].rsplit(":", 1)[1].strip("/"))
            connection = socket.create_connection(("127.0.0.1", port), timeout=30)
            admin = call(connection, None, "/keys", {"roles": ["admin"]}, 201)["key"]
            key = call(connection, admin, "/tenants/default/keys", {"roles": ["decide"]}, 201)["key"]
            for _ in range(3):
                decision = call(connection, key, "/select", {"user": "ada", "candidates": ["red", "blue"]})["decision"]
                call(connection, key, "/reward", {"decision": decision, "reward": 1})
        finally:
            server.terminate()
    data = trace.read_bytes()
    return [(thread, address) for address, thread in struct.iter_unpack("<QQ", data) if address != 0]


def places(build, addresses):
    """{address: (function, file)}"""
    asked = "\n".join(hex(a) for a in addresses)
    lines = subprocess.run(["addr2line", "-f", "-e", str(build / "laplaced")], input=asked, capture_output=True, text=True, check=True).stdout.splitlines()
    return {a: (name, path.rsplit(":", 1)[0].partition("/server/")[2]) for a, name, path in zip(addresses, lines[::2], lines[1::2])}


def walks(trace, place):
    """The last walk of each route, as a list of (file, function)."""
    found, open_walks = {}, {}
    for thread, address in trace:
        name, path = place[address]
        if name == FIRST:
            open_walks[thread] = []
        if thread in open_walks:
            open_walks[thread].append((path, name))
        if name == LAST and thread in open_walks:
            walk = open_walks.pop(thread)
            found["/select" if any(function == "api_select" for _, function in walk) else "/reward"] = walk
    return found


def count(walk):
    """{stays, walk: functions by file}"""
    walk = [(path, name) for path, name in walk if not path.startswith(BELOW)]
    stays, by_file = 0, {}
    for (path, name), before in zip(walk, [(None, None), *walk]):
        stays += path != before[0]
        functions = by_file.setdefault(path, [])
        if name not in functions:
            functions.append(name)
    return {"stays": stays, "walk": by_file}


def main():
    build, what = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    with tempfile.TemporaryDirectory() as folder:
        trace = play(build, pathlib.Path(folder))
    now = {route: count(walk) for route, walk in walks(trace, places(build, sorted({a for _, a in trace}))).items()}
    assert set(now) == {"/select", "/reward"}, f"no walk was seen: {set(now)}"
    if what == "record":
        RECORD.write_text(json.dumps({route: {"stays": walk["stays"], "files": list(walk["walk"])} for route, walk in now.items()}, indent=1) + "\n")
    recorded, is_well = json.loads(RECORD.read_text()) if RECORD.exists() else {}, True
    for route, walk in now.items():
        print(f"{route}: {len(walk['walk'])} files, {walk['stays']} stays")
        if what == "show":
            print("\n".join(f"  {path}: {' '.join(functions)}" for path, functions in walk["walk"].items()))
        elif what == "check":
            was = recorded[route]
            more, gone = sorted(set(walk["walk"]) - set(was["files"])), sorted(set(was["files"]) - set(walk["walk"]))
            is_well &= not more and not gone and walk["stays"] == was["stays"]
            print("".join([f"  enters {path}, which is new\n" for path in more] + [f"  enters {path} no more: record it\n" for path in gone]
                          + [f"  {walk['stays']} stays, {was['stays']} are recorded\n"] * (walk["stays"] != was["stays"])), end="")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
