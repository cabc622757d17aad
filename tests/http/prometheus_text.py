"""Reads the Prometheus text format 0.0.4 as strictly as its description, and holds it to the naming conventions."""
import re

SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
# https://prometheus.io/docs/practices/naming/: base units, no abbreviations of others.
BAD_UNITS = ("milliseconds", "microseconds", "minutes", "hours", "kilobytes", "megabytes", "ms", "us", "kb", "mb", "percent")


class Family:
    def __init__(self, name, help_text):
        self.name, self.help, self.type, self.samples = name, help_text, None, {}


def parse(text):
    """{family name: Family}; samples by (name, sorted label pairs). Asserts whatever the format wants."""
    assert text.endswith("\n")
    families, current = {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, help_text = line[7:].split(" ", 1)
            assert name not in families, f"{name} is announced twice"
            current = families[name] = Family(name, help_text)
        elif line.startswith("# TYPE "):
            name, current.type = line[7:].split(" ")
            assert name == current.name and not current.samples, line
        else:
            add_sample(current, line)
    return families


def add_sample(family, line):
    name, labels, value = SAMPLE.match(line).groups()
    suffixes = ("_bucket", "_sum", "_count") if family.type == "histogram" else ("",)
    assert name in [family.name + s for s in suffixes], f"{line} below {family.name}"
    pairs = parse_labels(labels or "")
    assert (name, pairs) not in family.samples, f"twice: {line}"
    family.samples[name, pairs] = float(value)


def parse_labels(text):
    pairs, at = [], 0
    while at < len(text):
        match = LABEL.match(text, at)
        assert match, text
        pairs.append((match[1], match[2]))
        at = match.end()
    assert len({k for k, _ in pairs}) == len(pairs), text
    return tuple(sorted(pairs))


def value(families, name, **labels):
    """The value of one series, 0 when there is none: counters are born at their first use."""
    family = families.get(name) or families.get(re.sub("_(bucket|sum|count)$", "", name))
    return family.samples.get((name, tuple(sorted(labels.items()))), 0.0) if family else 0.0


def lint(families):
    """Faults against the conventions, as sentences."""
    for f in families.values():
        if f.type not in ("counter", "gauge", "histogram"):
            yield f"{f.name}: type {f.type}"
        if not f.help or not f.help.endswith("."):
            yield f"{f.name}: help is to be a sentence"
        if not re.fullmatch("[a-z][a-z0-9_]*", f.name) or not f.name.startswith(("laplaced_", "process_")):
            yield f"{f.name}: prefix, small letters"
        if (f.type == "counter") != f.name.endswith("_total"):
            yield f"{f.name}: _total is for counters, and all of them"
        if f.name.endswith(("_bucket", "_sum", "_count")) or any(w in f.name.split("_") for w in (*BAD_UNITS, f.type)):
            yield f"{f.name}: unit, suffix or type in the name"
        yield from lint_samples(f)


def lint_samples(f):
    for (name, labels), number in f.samples.items():
        if f.type != "gauge" and number < 0:
            yield f"{name} is negative"
        if f.type != "histogram" and "le" in dict(labels):
            yield f"{name}: the label le belongs to histograms"
    if f.type == "histogram":
        for rest in {tuple(p for p in labels if p[0] != "le") for _, labels in f.samples}:
            yield from lint_histogram(f, rest)


def lint_histogram(f, rest):
    buckets = sorted((float(dict(labels)["le"].replace("+Inf", "inf")), n) for (name, labels), n in f.samples.items()
                     if name.endswith("_bucket") and tuple(p for p in labels if p[0] != "le") == rest)
    counts = [n for _, n in buckets]
    if not buckets or buckets[-1][0] != float("inf") or counts != sorted(counts):
        yield f"{f.name}{rest}: buckets"
    if f.samples.get((f.name + "_count", rest)) != counts[-1] or (f.name + "_sum", rest) not in f.samples:
        yield f"{f.name}{rest}: count and sum"
