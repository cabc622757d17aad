"""Manual pages as roff. What stands in the options' tables is taken from there; the rest is the little below."""
import re

CONF = "/etc/laplaced/laplaced.conf"


def plain(text):
    """A line of text as roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("^", "\\(ha").replace("~", "\\(ti").replace("`", "\\(ga").replace("'", "\\(aq")
    return "\\&" + text if text.startswith(".") else text


def rich(text):
    """The same with `words` in bold."""
    return re.sub(r"\\\(ga(.+?)\\\(ga", r"\\fB\1\\fR", plain(text))


def title(name, section, date, version, about):
    return [f'.TH {name.upper()} {section} "{date}" "laplaced {version}"', ".SH NAME", f"{plain(name)} \\- {plain(about)}"]


def tagged(tag, *lines):
    return [".TP", tag, *lines]


def option(o, *more):
    tag = f"\\fB{plain('--' + o.name)}\\fR" + (f" \\fI{plain(o.arg)}\\fR" if o.arg else "")
    return tagged(tag, rich(o.about) + ("." if more else ""), *more)


def literal(text):
    return [".nf", *(plain(line) if line else ".sp" for line in text.split("\n")), ".fi"]


def server_page(server, date):
    out = title("laplaced", 8, date, server.version, server.about)
    out += [".SH SYNOPSIS", ".B laplaced", "[\\fIOPTIONS\\fR]", ".SH DESCRIPTION",
            rich("The server chooses what to show to a user, over HTTP, and learns from rewards. Each tenant has one file in the folder of `--data`, which one server "
                 "has at a time. Without a key it listens on loopback only."), ".SH OPTIONS",
            rich("An option is a flag, an environment variable, or a line of the file that `--config` names; see"), ".BR laplaced.conf (5)."]
    for o in server.options:
        out += option(o, f"Variable {plain(o.env)}, default {plain(o.default)}" + ("; in force at once on SIGHUP." if o.is_live else "."))
    for o in server.actions:
        out += option(o)
    out += [".SH SIGNALS", rich(server.footer), ".SH EXIT STATUS"]
    out += tagged("0", "It was told to stop, and has stopped in order.") + tagged("1", "It could not start.") + tagged("2", "The options do not make sense.")
    out += [".SH FILES"] + tagged(f".I {CONF}", "options of the service") + tagged(".I /var/lib/laplaced", "the tenants\\(aq files of the service")
    return out + [".SH SEE ALSO", ".BR laplaced.conf (5),", ".BR laplacectl (1)"]


def conf_page(server, date):
    out = title("laplaced.conf", 5, date, server.version, "options of laplaced")
    out += [".SH DESCRIPTION",
            rich(f"The service reads {CONF}. Each line is NAME = VALUE; lines that begin with # are comments. The names are those of the flags of"), ".BR laplaced (8).",
            rich("A flag counts before an environment variable, and that before the file. A line that cannot be understood keeps the server from starting, and says why."), ".PP",
            rich("`systemctl reload laplaced` reads the file again. If it has a fault, everything stays as it was, and the log names the line. Else the options marked live are in "
                 "force at once; the others need a restart. Sizes may end in k, M or G, powers of 1024."), ".PP",
            rich("`laplaced --config FILE --check-config` prints what is in force, and where each value comes from."), ".SH OPTIONS"]
    for o in server.options:
        if o.name != "config":
            value = "true|false" if o.arg is None else o.arg
            out += tagged(f"\\fB{plain(o.name)}\\fR = \\fI{plain(value)}\\fR", rich(o.about) + ".", f"Default {plain(o.default)}" + ("; live." if o.is_live else "."))
    out += [".SH EXAMPLE"] + literal("data = /var/lib/laplaced\nlisten = 0.0.0.0:8443\nadmin-key-file = /etc/laplaced/admin-keys\n"
                                     "tls-cert = /etc/laplaced/tls/chain.pem\ntls-key = /etc/laplaced/tls/key.pem\nmemory-cap = 2G")
    return out + [".SH SEE ALSO", ".BR laplaced (8),", ".BR laplacectl (1)"]


def client_page(client, version, date):
    out = title("laplacectl", 1, date, version, client.about)
    out += [".SH SYNOPSIS", ".B laplacectl", "[\\fIoptions\\fR] \\fICOMMAND\\fR ...", ".SH DESCRIPTION"]
    about, _, more = client.footer.partition("\n\n")
    out += [rich(about), ".PP", rich(more.replace("\n", " ")), ".SH OPTIONS", "Every command takes these, and they may stand before it."]
    for o in client.session:
        out += option(o)
    out += [".SH COMMANDS"]
    for c in client.commands:
        out += [f".SS {plain(c.name)}", rich(c.about[0].upper() + c.about[1:] + ("" if c.about.endswith("?") else ".")), ".PP", f"\\fBlaplacectl\\fR {plain(c.synopsis)}"]
        for o in c.options:
            out += option(o)
        out += [".PP", *literal(c.text)] if c.text else []
    out += [".SH EXIT STATUS"]
    out += tagged("0", "Done.") + tagged("1", "The server refused or could not be reached, or the input is faulty.") + tagged("2", "The command line makes no sense.")
    return out + [".SH SEE ALSO", ".BR laplaced (8),", ".BR laplaced.conf (5)"]


def example(server):
    """Every option with its default, as a file that can be read."""
    out = ["# Every option of laplaced with its default. laplaced.conf(5) says how this file is read.", ""]
    for o in server.options:
        if o.name != "config":
            value = "" if o.default == "none" and o.arg == "FILE" or o.name in ("cors-origin", "log", "node") else o.default
            out += [f"# {o.about}" + ("; live" if o.is_live else ""), f"#{o.name} = {value}".rstrip(), ""]
    return out
