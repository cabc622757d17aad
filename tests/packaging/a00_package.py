"""The Debian package as it was built: what lintian says of it, what is in it, what its programs were built for."""
import gzip
import re
import subprocess

import pytest

from package import FOLDER, ROOT, package, run, unpacked


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return unpacked(package(), tmp_path_factory.mktemp("package") / "tree")


def test_lintian_has_nothing_to_say():
    changes, = FOLDER.glob("laplaced_*.changes")
    done = subprocess.run(["lintian", "--profile", "debian", "--tag-display-limit", "0", changes], capture_output=True, text=True)
    assert done.returncode == 0 and re.findall("^[EW]: .*", done.stdout, re.M) == [], done.stdout


def test_the_version_is_the_programs(tree):
    version = re.search(r'^#define LD_VERSION "(.*)"', (ROOT / "server/base/version.h").read_text(), re.M)[1]
    control = (tree / "DEBIAN/control").read_text()
    assert f"\nVersion: {version}\n" in control and f"laplaced {version}" in run(tree / "usr/bin/laplaced", "--version")
    assert gzip.open(tree / "usr/share/doc/laplaced/changelog.gz", "rt").readline().startswith(f"laplaced ({version}) ")
    assert gzip.open(tree / "usr/share/doc/laplaced/CHANGES.md.gz", "rt").readline() == "# Changelog\n"


def test_the_configuration_is_the_administrators(tree):
    assert (tree / "DEBIAN/conffiles").read_text().split() == ["/etc/laplaced/laplaced.conf"]
    assert (tree / "etc/laplaced/laplaced.conf").read_text() == (ROOT / "deploy/laplaced.conf").read_text()


def test_programs_unit_manual_completion_and_user_are_in_it(tree):
    files = {str(p.relative_to(tree)) for p in tree.rglob("*") if p.is_file()}
    wanted = {"usr/bin/laplaced", "usr/bin/laplacectl", "lib/systemd/system/laplaced.service", "lib/systemd/system/laplaced.socket", "usr/lib/sysusers.d/laplaced.conf", "usr/share/man/man8/laplaced.8.gz",
              "usr/share/man/man5/laplaced.conf.5.gz", "usr/share/man/man1/laplacectl.1.gz", "usr/share/bash-completion/completions/laplaced",
              "usr/share/bash-completion/completions/laplacectl", "usr/share/zsh/vendor-completions/_laplaced", "usr/share/zsh/vendor-completions/_laplacectl",
              "usr/share/doc/laplaced/copyright", "usr/share/doc/laplaced/changelog.gz", "usr/share/doc/laplaced/examples/laplaced.conf"}
    assert wanted <= files
    assert [f for f in files if not f.startswith(("usr/share/doc/", "DEBIAN/")) and f not in wanted] == ["etc/laplaced/laplaced.conf"]
    unit = (tree / "lib/systemd/system/laplaced.service").read_text()
    assert unit == (ROOT / "deploy/laplaced.service").read_text().replace("/usr/local/bin", "/usr/bin")


def test_every_library_that_is_loaded_is_asked_for(tree):
    """By the linker's list and dpkg's: which package has the file."""
    depends = re.search("^Depends: (.*)$", (tree / "DEBIAN/control").read_text(), re.M)[1]
    for program in ("laplaced", "laplacectl"):
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", tree / "usr/bin" / program))
        assert len(needed) > 5
        for library in needed:
            owners = set(re.findall(r"^([a-z0-9.+-]+)(?::amd64)?: ", run("dpkg-query", "-S", f"*/{library}", expect=None), re.M))
            if owners:
                assert any(re.search(rf"(^|, ){re.escape(o.split('-pthread')[0])}( |,|$)", depends) for o in owners) or library in ("libm.so.6",), (library, owners)


@pytest.mark.parametrize("program", ["laplaced", "laplacectl"])
def test_programs_are_hardened_and_bound_to_no_processor(tree, program, tmp_path):
    path = tree / "usr/bin" / program
    headers, dynamic = run("readelf", "-hlW", path), run("readelf", "-dW", path)
    assert "DYN (Position-Independent Executable" in headers and "GNU_RELRO" in headers and re.search("GNU_STACK.* RW ", headers)
    assert "BIND_NOW" in dynamic and "RPATH" not in dynamic and "RUNPATH" not in dynamic
    assert "__stack_chk_fail" in run("readelf", "-sW", path) and re.search(r"__\w+_chk@", run("readelf", "-sW", path))


def test_what_was_compiled_for_which_processor_stands_in_the_symbols(tmp_path):
    """The architecture's baseline, wherever it was built; and no folder of the machine that built it."""
    run("dpkg-deb", "-x", next(FOLDER.glob("laplaced-dbgsym_*.deb")), tmp_path)
    texts = "".join(run("readelf", "-z", "-p", ".debug_str", "-p", ".debug_line_str", path, errors="replace") for path in tmp_path.rglob("*.debug"))
    marches = set(re.findall(r"GNU C11 .*-march=(\S+)", texts))
    assert marches == {"x86-64"} or marches and run("dpkg", "--print-architecture").strip() != "amd64", marches
    assert "core/linalg" in texts
    assert str(ROOT) not in texts and "/deb/laplaced-" not in texts


def test_nothing_says_where_it_was_built(tree):
    for path in (p for p in tree.rglob("*") if p.is_file()):
        assert str(ROOT).encode() not in path.read_bytes(), path
