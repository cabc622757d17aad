"""The mappings names-1 and names-2 once more, by their description and in another language: server/base/feature_names.h says it to the last bit.

Nothing here is taken from the program: the hash is MurmurHash3 by its published description, sums are in the order that the
description tells, and numbers are Python's, which are doubles.
"""
import math

LN2_HIGH, LN2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")


class Fault(Exception):
    """Why an object has no vector, and where."""

    def __init__(self, pointer, text):
        super().__init__(f"{pointer}: {text}")
        self.pointer, self.text = pointer, text


def murmur3(data, seed):
    """MurmurHash3_x86_32."""
    def rotated(x, by):
        return (x << by | x >> (32 - by)) & 0xffffffff

    def scrambled(k):
        return rotated(k * 0xcc9e2d51 & 0xffffffff, 15) * 0x1b873593 & 0xffffffff

    h, whole = seed, len(data) // 4 * 4
    for i in range(0, whole, 4):
        h = (rotated(h ^ scrambled(int.from_bytes(data[i:i + 4], "little")), 13) * 5 + 0xe6546b64) & 0xffffffff
    h ^= scrambled(int.from_bytes(data[whole:], "little")) ^ len(data)
    h = (h ^ h >> 16) * 0x85ebca6b & 0xffffffff
    h = (h ^ h >> 13) * 0xc2b2ae35 & 0xffffffff
    return h ^ h >> 16


def asinh(v):
    """Step by step as described; test_asinh_is_asinh compares it with the library's."""
    a = abs(v)
    if a >= 2.0 ** 28:
        m, k = math.frexp(a)
        k += 1
    else:
        t = a + a * a / (1 + math.sqrt(a * a + 1))
        if t < 0.4:
            return math.copysign(series(t / (2 + t), 0), v)
        m, k = math.frexp(1 + t)
    if m < math.sqrt(0.5):
        m, k = 2 * m, k - 1
    return math.copysign(series((m - 1) / (m + 1), k), v)


def series(s, k):
    z, p = s * s, 0.0
    for j in range(10, 0, -1):
        p = z * (2.0 / (2 * j + 1) + p)
    return k * LN2_HIGH + (2 * s + (s * p + k * LN2_LOW))


def escaped(name):
    return name.replace("\\", "\\\\").replace("^", "\\^").replace("=", "\\=")


def is_number(v):
    return isinstance(v, (int, float)) and not isinstance(v, bool)


def leaves(value, path=(), pointer=""):
    """(namespace, path, text or None, value) of each leaf, in the order of the text."""
    if path and len("^".join(map(escaped, path)).encode()) > 511:
        raise Fault(pointer, "511 bytes")
    if len(path) > 8:
        raise Fault(pointer, "8 deep")
    space = path[0] if len(path) > 1 else ""
    if isinstance(value, dict):
        for name, member in value.items():
            if not name.startswith("_"):
                yield from leaves(member, (*path, name), f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        is_embedding = len(value) >= 16 and all(map(is_number, value))
        most = max((abs(float(v)) for v in value), default=0) if is_embedding else 0
        length = 0.0
        for v in value if most > 0 else []:
            length += (v / most) * (v / most)
        length = math.sqrt(length)
        for i, v in enumerate(value):
            here = f"{pointer}/{i}"
            if isinstance(v, list):
                raise Fault(here, "array in an array")
            if not is_number(v):
                yield from leaves(v, path, here)
            elif is_embedding:
                for leaf in leaves(0, (*path, str(i)), here):
                    yield (*leaf[:3], v / most / length if most > 0 else 0.0, here)
            else:
                yield from leaves(v, (*path, str(i)), here)
    elif isinstance(value, str):
        if value:
            yield space, "^".join(map(escaped, path)), value, 1.0, pointer
    elif is_number(value):
        yield space, "^".join(map(escaped, path)), None, asinh(float(value)), pointer
    elif value is True:
        yield space, "^".join(map(escaped, path)), None, 1.0, pointer


def stretch(space, dim, namespaces):
    """(the first coordinate, how many) of a namespace."""
    first = 0
    for name in sorted(namespaces or {}, key=str.encode):
        if name == space:
            return first, namespaces[name]
        first += namespaces[name]
    return first, dim - first


def mapped(value, dim=256, seed=0, weights=None, namespaces=None):
    """The vector of an object."""
    last = {}
    for n, (space, path, text, x, pointer) in enumerate(leaves(value)):
        if n == 1000:
            raise Fault(pointer, "1000 features")
        last[path if text is None else f"{path}={text}"] = (space, path, text, x)
    vector = [0.0] * dim
    for space in sorted({leaf[0] for leaf in last.values()}, key=str.encode):
        hashed = sorted((murmur3(key.encode(), seed), leaf[1].encode(), (leaf[2] is not None, (leaf[2] or "").encode()), leaf[3])
                        for key, leaf in last.items() if leaf[0] == space)
        block, (first, size) = {}, stretch(space, dim, namespaces)
        for h, _, _, x in hashed:
            at = first + (h * size >> 32)
            block[at] = block[at] + (-x if h & 1 else x) if at in block else (-x if h & 1 else x)
        norm = 0.0
        for at in sorted(block):
            norm += block[at] * block[at]
        norm, scale = max(1.0, math.sqrt(norm)), math.sqrt((weights or {}).get(space, 1.0))
        for at, x in block.items():
            vector[at] += x / norm * scale
    return vector


def names(value, path=()):
    """The names of the features of an object: keys of leaves, and the path of an embedding."""
    if isinstance(value, dict):
        return {n for name, member in value.items() if not name.startswith("_") for n in names(member, (*path, name))}
    here = "^".join(map(escaped, path))
    if isinstance(value, list) and not (len(value) >= 16 and all(map(is_number, value))):
        return {n for i, v in enumerate(value) for n in names(v, (*path, str(i)) if is_number(v) else path)}
    if isinstance(value, str):
        return {f"{here}={value}"} if value else set()
    return {here} if value is True or is_number(value) or isinstance(value, list) else set()


def without(value, name, path=()):
    """The object with nothing in the place of what has that name; places of other items stay."""
    if isinstance(value, dict):
        return {k: v if k.startswith("_") else without(v, name, (*path, k)) for k, v in value.items()}
    if isinstance(value, list) and not (len(value) >= 16 and all(map(is_number, value))):
        return [without(v, name, (*path, str(i)) if is_number(v) else path) for i, v in enumerate(value)]
    return None if names(value, path) == {name} else value
