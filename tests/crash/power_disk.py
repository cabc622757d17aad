"""A disk that a power cut may hit at any record of a trace (power_trace.c), as pessimistic as POSIX allows.

    what                            stands for sure                          else, at a cut
    write                           once a sync of its file that began       kept, lost, or torn: of its sectors of 512
                                    behind it has ended                      bytes some are kept
    truncate                        likewise                                 kept or lost
    a name made, renamed, removed   once a sync of its directory that        kept or lost, a rename as a whole; between
                                    began behind it has ended                directories: with the sync of the new name's
    a directory's own name          likewise, by its parent's sync           lost with all that is below it

A sync of a file says nothing about its name, one of a name nothing about the file, and what is kept depends on nothing
else: later writes may be there where earlier ones are not. A file may also be as long as it was, with zeros where the
bytes are lost. `-shm` files are indexes in memory and come back from no cut."""
import collections
import os
import pathlib
import random
import struct

RECORD = struct.Struct("<QqqiHHB7x")
CREATED, TRUNCATED, DIRECTORY = 1, 2, 4
SECTOR = 512
Record = collections.namedtuple("Record", "t op fd at n path other data")


def read_trace(path):
    """All records of a file, in their order."""
    text, at, records = pathlib.Path(path).read_bytes(), 0, []
    while at + RECORD.size <= len(text):
        t, where, n, fd, n_path, n_other, op = RECORD.unpack_from(text, at)
        at += RECORD.size
        name = text[at:at + n_path].decode()
        at += n_path
        other = text[at:at + n_other].decode()
        at += n_other
        data = b""
        if chr(op) == "W":
            data = text[at:at + n]
            at += n
        records.append(Record(t, chr(op), fd, where, n, name, other, data))
    return records


def put(content, at, data):
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    content[at:at + len(data)] = data


def resize(content, size):
    del content[size:]
    content.extend(bytes(size - len(content)))


class File:
    def __init__(self):
        self.content, self.pending = bytearray(), []  # what stands; (number, op, at, data or size)

    def settle(self, before):
        """A sync that began before that number has ended."""
        for change in self.pending:
            if change[0] < before:
                self.apply(self.content, change)
        self.pending = [c for c in self.pending if c[0] >= before]

    @staticmethod
    def apply(content, change):
        _, op, at, what = change
        if op == "W":
            put(content, at, what)
        else:
            resize(content, what)


class Folder:
    def __init__(self):
        self.names, self.stable = {}, {}  # name: node, as a process sees it; name: (number, node or None), as it stands

    def settle_name(self, number, name, node):
        """The latest change of a name counts."""
        if self.stable.get(name, (-1, None))[0] < number:
            self.stable[name] = (number, node)


class Change:
    """Of names: those that are added and those that go, as one."""

    def __init__(self, number, home):
        self.number, self.home, self.names = number, home, []  # (folder, name, node or None)


class Disk:
    """honors(number): whether a sync that ends at that record does what it says."""

    def __init__(self, root, honors=lambda number: True):
        self.root, self.honors = root, honors
        self.top, self.files, self.changes = Folder(), {}, []
        self.syncs, self.number = {}, 0
        self.nodes = [self.top]

    # ---- names

    def find(self, path):
        """(folder, last name) of a path below the root; the root itself has no name."""
        parts = [p for p in path[len(self.root):].split("/") if p]
        folder = self.top
        for part in parts[:-1]:
            folder = folder.names[part]
        return folder, parts[-1] if parts else None

    def node(self, path):
        folder, name = self.find(path)
        return folder.names.get(name) if name else folder

    def rename_nodes(self, home, *names):
        """One change, of these (folder, name, node or None); it stands when `home` has been synced."""
        change = Change(self.number, home)
        for folder, name, node in names:
            change.names.append((folder, name, node))
            folder.names.pop(name, None)
            if node is not None:
                folder.names[name] = node
        self.changes.append(change)

    # ---- records

    def play(self, record):
        self.number += 1
        getattr(self, "on_" + record.op, self.on_sync)(record)

    def on_X(self, _):
        self.files.clear()
        self.syncs.clear()

    def on_O(self, r):
        folder, name = self.find(r.path)
        if r.at & CREATED:
            self.rename_nodes(folder, (folder, name, File()))
        node = self.node(r.path)
        self.files[r.fd] = node
        if r.at & TRUNCATED and not r.at & CREATED:
            node.pending.append((self.number, "T", 0, 0))

    def on_C(self, r):
        self.files.pop(r.fd)

    def on_W(self, r):
        self.files[r.fd].pending.append((self.number, "W", r.at, r.data))

    def on_T(self, r):
        self.files[r.fd].pending.append((self.number, "T", 0, r.n))

    def on_R(self, r):
        (source, old), (target, new) = self.find(r.path), self.find(r.other)
        self.rename_nodes(target, (source, old, None), (target, new, source.names[old]))

    def on_U(self, r):
        folder, name = self.find(r.path)
        self.rename_nodes(folder, (folder, name, None))

    def on_M(self, r):
        folder, name = self.find(r.path)
        self.rename_nodes(folder, (folder, name, Folder()))

    def on_sync(self, r):
        if r.op == "S":
            self.syncs[r.at] = (self.number, self.files[r.fd])
            return
        assert r.op == "s", r
        began, node = self.syncs.pop(r.at)
        if not self.honors(self.number):
            return
        if isinstance(node, File):
            node.settle(began)
            return
        for change in self.changes:
            if change.home is node and change.number < began:
                for folder, name, what in change.names:
                    folder.settle_name(change.number, name, what)
        self.changes = [c for c in self.changes if c.home is not node or c.number >= began]

    # ---- what a cut leaves

    def image(self, seed):
        """({path: bytes, or None for a directory}, a few words). How much of what no sync covers is kept is drawn, too: from
        nothing to everything."""
        rng, count = random.Random(seed), collections.Counter()
        of_data, of_names = (rng.choice((0, 0, 0.2, 0.5, 0.8, 1)) for _ in range(2))
        kept = [c for c in self.changes if rng.random() < of_names]
        out = self.leave(kept, lambda file: cut(file, rng, of_data, count))
        return out, (f"{len(kept)} of {len(self.changes)} changes of names, {count['kept']} of {count['all']} of contents, "
                     f"{count['torn']} torn")

    def leave(self, kept=(), contents=lambda file: bytes(file.content)):
        """What stands for sure, with these changes of names."""
        names, out = collections.defaultdict(dict), {}
        for change in kept:  # in their order
            for folder, name, node in change.names:
                if folder.stable.get(name, (-1, None))[0] < change.number:
                    names[folder][name] = node
        lay_out(out, "", self.top, lambda f: {**{name: node for name, (_, node) in f.stable.items()}, **names[f]}, contents)
        return out

    def now(self):
        """As the processes see it."""
        out = {}
        lay_out(out, "", self.top, lambda folder: folder.names, lambda file: cut(file, random.Random(0), 1, collections.Counter()))
        return out


def lay_out(out, path, folder, names, contents):
    """Into out, {path: bytes, or None for a directory}."""
    for name, node in sorted(names(folder).items()):
        if isinstance(node, Folder):
            out[f"{path}/{name}"] = None
            lay_out(out, f"{path}/{name}", node, names, contents)
        elif node is not None and not name.endswith("-shm"):
            out[f"{path}/{name}"] = contents(node)


def cut(file, rng, share, count):
    """A file with that share of its changes that no sync covers."""
    content, longest = bytearray(file.content), len(file.content)
    for change in file.pending:
        _, op, at, what = change
        longest = max(longest, at + len(what)) if op == "W" else what
        count["all"] += 1
        if op == "W" and 0 < share < 1 and rng.random() < 0.3:
            count["torn"] += 1
            tear(content, at, what, rng)
        elif rng.random() < share:
            count["kept"] += 1
            File.apply(content, change)
    if longest > len(content) and rng.random() < 0.3:
        resize(content, longest)
    return bytes(content)


def tear(content, at, data, rng):
    """Some sectors of a write: its beginning, its end, or any."""
    edges = [at, *range((at // SECTOR + 1) * SECTOR, at + len(data), SECTOR), at + len(data)]
    pieces = list(zip(edges, edges[1:]))
    middle, way = rng.randrange(len(pieces) + 1), rng.randrange(3)
    for i, (a, b) in enumerate(pieces):
        if (i < middle, i >= middle, rng.random() < 0.5)[way]:
            put(content, a, data[a - at:b - at])


def folder_now(root):
    """The same of a real folder."""
    out = {}
    for folder, folders, files in os.walk(root):
        base = folder[len(str(root)):]
        out.update({f"{base}/{name}": None for name in folders})
        out.update({f"{base}/{name}": pathlib.Path(folder, name).read_bytes() for name in files if not name.endswith("-shm")})
    return out


def write_image(image, folder):
    folder.mkdir(parents=True)
    for path, content in image.items():
        where = folder / path[1:]
        if content is None:
            where.mkdir(mode=0o700, parents=True, exist_ok=True)
        else:
            where.write_bytes(content)
