"""What is installed beside the programs: manual pages, completion for two shells, a configuration file, a user, a unit."""
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import time

import pytest

from contract import ROOT
from harness import BIN, CTL, IS_SANITIZED

PAGES = ("laplaced.8", "laplaced.conf.5", "laplacectl.1")
ROW = re.compile(r'^    \{"([a-z-]+)", (?:"([^"]*)"|NULL), LD_OPTION_(\w+)', re.M)
OPTIONS = ROW.findall((ROOT / "server/app/option_table.c").read_text())
COMMANDS = {name: path for path in (ROOT / "tools/ctl").glob("cmd_*.c") for name in re.findall(r'\.name = "(\w+)"', path.read_text())}
pytestmark = pytest.mark.skipif(IS_SANITIZED, reason="help and texts alone: the release build has them")


def client_options():
    """Options that stand in the sources of laplacectl, by the file of their command."""
    row = re.compile(r'\{"([a-z-]+)", LC_OPT_\w+')
    return {path.name: set(row.findall(path.read_text())) for path in [*COMMANDS.values(), ROOT / "tools/common/args.c"]}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    subprocess.run(["/usr/bin/python3", "-B", ROOT / "tools/pages/pages.py", BIN, CTL, folder], check=True, env={"PATH": os.environ["PATH"], "SOURCE_DATE_EPOCH": "1"})
    return folder


def read(page):
    """A manual page as text, escapes taken back."""
    return re.sub(r"\\f[BIR]|\\&", "", page.read_text()).replace("\\-", "-").replace("\\e", "\\").replace("\\(aq", "'").replace("\\(ga", "`")


# --- manual ----------------------------------------------------------------------------------------------------------


def test_the_manual_has_every_option_of_the_server(pages):
    assert len(OPTIONS) > 45
    server, conf = read(pages / "laplaced.8"), read(pages / "laplaced.conf.5")
    for name, arg, kind in OPTIONS:
        assert re.search(rf"^--{name}{' ' + re.escape(arg) if arg else ''}$", server, re.M), name
        assert f"LAPLACED_{name.upper().replace('-', '_')}," in server, name
        assert name == "config" or re.search(rf"^{name} = {re.escape(arg) if arg else 'true.false'}$", conf, re.M), name
    assert set(re.findall(r"^--([a-z-]+)", server, re.M)) == {name for name, _, _ in OPTIONS} | {"help", "version", "check-config"}


def test_the_manual_has_every_command_with_its_options(pages):
    text = read(pages / "laplacectl.1")
    assert len(COMMANDS) == 24 and set(re.findall(r"^\.SS (\w+)$", text, re.M)) == set(COMMANDS)
    in_sources = client_options()
    for name, path in COMMANDS.items():
        own = set(re.findall(r"^--([a-z-]+)", text.split(f".SS {name}\n", 1)[1].split(".SS ")[0].split(".SH ")[0], re.M))
        assert own <= in_sources[path.name], name
    everything = set().union(*in_sources.values())
    assert set(re.findall(r"^--([a-z-]+)", text, re.M)) == everything and len(everything) > 60


@pytest.mark.parametrize("name", PAGES)
def test_the_pages_are_sound(pages, name):
    page = pages / name
    assert ".SH NAME" in page.read_text() and '"1970-01-01"' in page.read_text().split("\n")[0]
    if shutil.which("mandoc"):
        done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", page], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    if shutil.which("groff") is None:
        pytest.skip("no groff here")
    done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-Kutf8", page], capture_output=True, text=True)
    assert done.stderr == "" and "NAME" in done.stdout


# --- the configuration file ------------------------------------------------------------------------------------------


def in_force(conf):
    done = subprocess.run([BIN, "--config", str(conf), "--check-config"], capture_output=True, text=True, env={})
    assert done.returncode == 0, done.stderr
    return dict(re.findall(r"^# (?:\w+)(?:, live)?\n([a-z-]+) = (.*)$", done.stdout, re.M)), re.findall(r"^# file(?:, live)?\n([a-z-]+)", done.stdout, re.M)


def uncommented(text):
    return re.sub(r"^#(?=[a-z-]+ =)", "", text, flags=re.M)


def test_the_example_is_every_option_with_its_default(pages, tmp_path):
    text = (pages / "laplaced.conf.example").read_text()
    (tmp_path / "empty").touch()
    (tmp_path / "all").write_text(uncommented(text))
    (defaults, none), (values, from_file) = in_force(tmp_path / "empty"), in_force(tmp_path / "all")
    assert none == [] and values == defaults
    assert set(from_file) == set(values) == {name for name, _, _ in OPTIONS} - {"config"}


def test_the_installed_file_says_true_defaults(tmp_path):
    text = (ROOT / "deploy/laplaced.conf").read_text()
    (tmp_path / "empty").touch()
    (tmp_path / "here").write_text(text)
    (tmp_path / "all").write_text(uncommented(text).replace("/etc/laplaced/", f"{tmp_path}/"))
    defaults, (values, from_file) = in_force(tmp_path / "empty")[0], in_force(tmp_path / "here")
    assert from_file == ["data"] and values == {**defaults, "data": "/var/lib/laplaced"}
    shown = dict(re.findall(r"^#([a-z-]+) = (.*)$", text, re.M))
    assert len(shown) > 5 and {k: v for k, v in shown.items() if not v.startswith("/etc/")} == {k: defaults[k] for k, v in shown.items() if not v.startswith("/etc/")}
    table = (ROOT / "server/app/option_table.c").read_text()
    for block in re.split(r"\n\n", text):
        for name in re.findall(r"^#?([a-z-]+) = ", block, re.M):
            at = table.index(f'{{"{name}",')
            assert ("(restart)" in block) == (re.search(r"LD_AT_START|LD_LIVE", table[at:])[0] == "LD_AT_START"), name


# --- completion ------------------------------------------------------------------------------------------------------


def bash(pages, *words):
    """What bash offers for the last of the words."""
    program = words[0]
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _%s; printf "%%s\\n" "${COMPREPLY[@]}"' % program
    done = subprocess.run(["bash", "--norc", "-c", script, "bash", pages / f"{program}.bash", *words], capture_output=True, text=True, cwd=pages)
    # compopt is for the line editor alone.
    assert [e for e in done.stderr.splitlines() if "compopt" not in e] == []
    return set(done.stdout.split())


def test_bash_completes_options_commands_verbs_and_values(pages):
    assert bash(pages, "laplaced", "--") == {f"--{name}" for name, _, _ in OPTIONS} | {"--help", "--version", "--check-config"}
    assert bash(pages, "laplaced", "--log-format", "") == {"text", "json"}
    assert bash(pages, "laplaced", "--log-format", "=", "j") == {"json"}
    assert bash(pages, "laplaced", "--log-level", "") == {"debug", "info", "warn", "error"}
    assert bash(pages, "laplaced", "--config", "lap") == {"laplaced.8", "laplaced.conf.5", "laplaced.conf.example", "laplaced.bash", "laplacectl.1", "laplacectl.bash"}
    assert bash(pages, "laplaced", "--listen", "") == set()
    assert bash(pages, "laplacectl", "") == set(COMMANDS) | {"help"}
    assert bash(pages, "laplacectl", "--server", "http", "--json", "ex") == {"experiment", "export"}
    assert bash(pages, "laplacectl", "--server", "=", "key", "--json", "ex") == {"experiment", "export"}
    assert bash(pages, "laplacectl", "key", "") == {"create", "list", "revoke"}
    assert bash(pages, "laplacectl", "help", "key", "") == {"create", "list", "revoke"}
    assert bash(pages, "laplacectl", "key", "create", "") == set()
    assert bash(pages, "laplacectl", "graph", "put", "--format", "") == {"csv", "ndjson", "json"}
    assert bash(pages, "laplacectl", "evaluate", "--format", "") == {"obd", "dsjson", "ndjson", "csv"}
    assert bash(pages, "laplacectl", "tenant", "") == {"list", "put", "patch", "stop", "start", "get", "delete", "compact", "challengers", "promote", "rollback"}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_bash_offers_what_a_command_takes(pages, name):
    offered = {o.removeprefix("--") for o in bash(pages, "laplacectl", name, "--")}
    said = subprocess.run([CTL, name, "--help"], capture_output=True, text=True, check=True).stdout
    assert offered == set(re.findall(r"^  --([a-z-]+)", said, re.M)) and "server" in offered
    if shutil.which("zsh"):
        block = (pages / "_laplacectl").read_text().split(f"\n    {name})\n", 1)[1].split(";;")[0]
        assert set(re.findall(r"--([a-z-]+)=?\[", block)) == offered - {"server", "key", "tenant", "cacert", "timeout", "json", "help"}


class Terminal:
    """zsh as somebody sits before it, with our functions first on its path."""

    def __init__(self, pages):
        pid, self.fd = pty.fork()
        if pid == 0:
            os.chdir(pages)
            os.execvpe("zsh", ["zsh", "-f", "-i"], {"PATH": os.environ["PATH"], "TERM": "vt100", "HOME": str(pages), "LC_ALL": "C.UTF-8"})
        self.pid = pid
        self.typed(f"PS1=; stty columns 200 rows 200; fpath=({pages} $fpath); autoload -U compinit; compinit -u -d {pages}/dump; LISTMAX=9999; unsetopt beep\n")
        self.answer()

    def typed(self, text):
        os.write(self.fd, text.encode())

    def shown(self, until, seconds=30):
        """What is shown, until all of this has been."""
        end, seen = time.monotonic() + seconds, ""
        while time.monotonic() < end and not all(w in seen for w in until):
            if select.select([self.fd], [], [], 0.1)[0]:
                seen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x07", "", os.read(self.fd, 65536).decode(errors="replace"))
        return seen

    def answer(self):
        """It has done what was typed before."""
        self.typed("echo do''ne\n")
        assert "done\r\n" in self.shown(["done\r\n"])

    def completed(self, line, want):
        self.typed(line + "\t\t")
        out = self.shown(want)
        self.typed("\x15")
        self.answer()
        return out

    def close(self):
        os.kill(self.pid, 9)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


@pytest.fixture(scope="module")
def zsh(pages):
    if shutil.which("zsh") is None:
        pytest.skip("no zsh here (package zsh)")
    one = Terminal(pages)
    yield one
    one.close()


@pytest.mark.parametrize("line, want", [("laplaced --log-format=", ["text", "json"]), ("laplaced --", ["--config", "--listen", "--stuck-after", "--check-config"]),
                                        ("laplacectl ", ["tenant", "evaluate", "which arm for this user"]), ("laplacectl key ", ["create", "list", "revoke"]),
                                        ("laplacectl --json key cr", ["eate"]), ("laplacectl select --", ["--dry-run", "--attribute", "--server", "show every candidate"]),
                                        ("laplacectl evaluate --format=", ["obd", "dsjson", "ndjson", "csv"])])
def test_zsh_completes_at_a_terminal(zsh, line, want):
    shown = zsh.completed(line, want)
    assert all(w in shown for w in want) and not re.search("_arguments:|_laplace[a-z]*:", shown), shown


# --- make install ----------------------------------------------------------------------------------------------------


def install(folder, *variables):
    out = pathlib.Path(BIN).resolve().parent
    mode, build = out.name, out.parent
    if not (out / "libld.a").exists():
        pytest.skip("the programs do not stand in a build folder")
    done = subprocess.run(["make", "-s", f"MODE={mode}", f"BUILD={build}", f"DESTDIR={folder}", "SETUP=:", *variables, "install"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return {str(p.relative_to(folder)): p for p in pathlib.Path(folder).rglob("*") if p.is_file()}


def test_make_install_puts_all_in_place_and_keeps_a_configuration(tmp_path):
    files = install(tmp_path, "PREFIX=/opt/l", "SYSCONFDIR=/opt/etc")
    assert set(files) == {
        "opt/l/bin/laplaced", "opt/l/bin/laplacectl", "opt/l/share/man/man8/laplaced.8", "opt/l/share/man/man5/laplaced.conf.5", "opt/l/share/man/man1/laplacectl.1",
        "opt/l/share/bash-completion/completions/laplaced", "opt/l/share/bash-completion/completions/laplacectl", "opt/l/share/zsh/site-functions/_laplaced",
        "opt/l/share/zsh/site-functions/_laplacectl", "opt/l/share/doc/laplaced/examples/laplaced.conf", "opt/l/lib/sysusers.d/laplaced.conf",
        "opt/l/lib/systemd/system/laplaced.service", "opt/l/lib/systemd/system/laplaced.socket", "opt/etc/laplaced/laplaced.conf"}
    unit = files["opt/l/lib/systemd/system/laplaced.service"].read_text()
    assert "ExecStart=/opt/l/bin/laplaced\n" in unit and "=/opt/etc/laplaced/laplaced.conf\n" in unit and "/usr/local" not in unit and " /etc/" not in unit
    assert {oct(p.stat().st_mode & 0o777) for n, p in files.items() if "/bin/" in n} == {"0o755"}
    assert {oct(p.stat().st_mode & 0o777) for n, p in files.items() if "/bin/" not in n} == {"0o644"}
    files["opt/etc/laplaced/laplaced.conf"].write_text("# mine\n")
    assert install(tmp_path, "PREFIX=/opt/l", "SYSCONFDIR=/opt/etc")["opt/etc/laplaced/laplaced.conf"].read_text() == "# mine\n"


def test_the_service_has_a_user_and_the_folder_that_its_file_names():
    unit = (ROOT / "deploy/laplaced.service").read_text()
    user = re.search(r'^u (\w+) - "[^"]+" (\S+)$', (ROOT / "deploy/laplaced.sysusers").read_text(), re.M)
    assert f"\nUser={user[1]}\nGroup={user[1]}\nStateDirectory={user[1]}\n" in unit
    assert user[2] == f"/var/lib/{user[1]}" and f"\ndata = {user[2]}\n" in (ROOT / "deploy/laplaced.conf").read_text()
    if shutil.which("systemd-sysusers") is None:
        pytest.skip("no systemd-sysusers here")
    done = subprocess.run(["systemd-sysusers", "--dry-run", "--root=/nonexistent", "--inline", user[0]], capture_output=True, text=True)
    assert "laplaced" in done.stdout + done.stderr and done.returncode == 0, done.stderr


# --- the package's scripts -------------------------------------------------------------------------------------------


def after(way, data, script, within=(), first="true"):
    """What is in the folder `data`, filled anew, behind the package's script; None: it is gone."""
    steps = f'mkdir -p "$0" && {first} && mkdir "$0/tenants" && touch "$0/.hidden" "$0/tenants/t.db" && sh {script} {way} && if [ -d "$0" ]; then find "$0" -printf "%P\\n"; else echo gone; fi'
    done = subprocess.run([*within, "sh", "-c", steps, data], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return None if done.stdout == "gone\n" else set(done.stdout.split())


@pytest.fixture
def postrm(tmp_path):
    """The script for another folder than the system's."""
    text = (ROOT / "deploy/debian/postrm").read_text()
    assert "/var/lib/laplaced" in text
    script = tmp_path / "postrm"
    script.write_text(text.replace("/var/lib/laplaced", str(tmp_path / "data")))
    return script


def test_the_data_stays_when_the_package_is_removed_and_goes_when_it_is_purged(tmp_path, postrm):
    assert after("purge", tmp_path / "data", postrm) is None
    assert after("remove", tmp_path / "data", postrm) == {".hidden", "tenants", "tenants/t.db"}


def test_a_purge_empties_a_folder_that_is_a_mount(tmp_path, postrm):
    own = ("unshare", "-r", "-m")
    if subprocess.run([*own, "mount", "-t", "tmpfs", "none", tmp_path], capture_output=True).returncode != 0:
        pytest.skip("no mounts of one's own here")
    assert after("purge", tmp_path / "data", postrm, own, 'mount -t tmpfs none "$0"') == set()


def test_a_build_of_the_package_removes_what_an_earlier_one_left_and_nothing_else(tmp_path):
    """dpkg-buildpackage is one that leaves an empty package."""
    programs, out = tmp_path / "bin", tmp_path / "out"
    programs.mkdir()
    builder = programs / "dpkg-buildpackage"
    builder.write_text("#!/bin/sh\nset -e\ntest -f debian/changelog\ntest ! -e left\ntouch ../laplaced_9.8.7_amd64.deb\n")
    builder.chmod(0o755)
    old = {"laplaced_0.1.0_amd64.deb", "laplaced-dbgsym_0.1.0_amd64.deb", "laplaced_0.1.0_amd64.buildinfo", "laplaced_0.1.0_amd64.changes"}
    others = {"laplaced-data/t.db", "laplaced-1.0.0/mine", "laplaced_backup/t.db", "laplaced_notes.txt", "laplaced-my_notes", "other_1_amd64.deb"}
    for name in (*old, *others, "laplaced-9.8.7/left"):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(name)
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "DEB_VERSION": "9.8.7"}
    done = subprocess.run(["sh", ROOT / "tools/deb.sh", out], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    left = {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()}
    assert left == {*others, "laplaced_9.8.7_amd64.deb", "build.log"} and all((out / name).read_text() == name for name in others)
