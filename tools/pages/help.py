"""What the programs say of themselves: `--help` of laplaced and of each command of laplacectl, as data.

The options of both stand in tables from which --help is printed, and nowhere else. So does what is made of them here.
"""
import collections
import re
import subprocess

Option = collections.namedtuple("Option", "name arg about env default is_live")
Command = collections.namedtuple("Command", "name about synopsis options text")
Server = collections.namedtuple("Server", "version about options actions footer")
Client = collections.namedtuple("Client", "about commands session footer")

ROW = re.compile(r"^  --([a-z0-9-]+)(?: (\S+))? +(\S.*)$")
NOTE = re.compile(r"^ +\((LAPLACED_[A-Z_]+); default (.*?)(; live)?\)$")


def said(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": "/nonexistent"})
    return done.stdout


def rows(lines):
    """Options of a table, each with the line behind it where that has its variable and its default."""
    out = []
    for line in lines:
        row, note = ROW.match(line), NOTE.match(line)
        if row:
            out.append(Option(row[1], row[2], row[3], None, None, False))
        elif note:
            out[-1] = out[-1]._replace(env=note[1], default=note[2], is_live=note[3] is not None)
        elif line:
            raise ValueError(f"neither an option nor its default: {line!r}")
    return out


def sections(text):
    """Paragraphs, which are parted by empty lines."""
    return [part.split("\n") for part in text.rstrip("\n").split("\n\n")]


def read_server(program):
    head, usage, table, *footer = sections(said(program, "--help"))
    name, about = head[0].split(": ", 1)
    assert usage == ["usage: laplaced [OPTIONS]"], usage
    options = rows(table)
    return Server(name.split()[1], about, [o for o in options if o.env], [o for o in options if not o.env], " ".join(" ".join(f) for f in footer))


def read_command(program, name, about):
    text = said(program, name, "--help")
    head, rest = text.split("\noptions of every command:\n")
    title, usage, *options = sections(head)
    assert title == [f"laplacectl {name}: {about}"] and usage[0].startswith("usage: laplacectl "), (title, usage)
    _, _, own = rest.partition("\n\n")
    table = rows(options[0][1:]) if options else []
    return Command(name, about, usage[0].removeprefix("usage: laplacectl "), table, own.rstrip("\n"))


def read_client(program):
    head, _, commands, session, *footer = sections(said(program, "--help"))
    assert commands[0] == "commands:" and session[0] == "options of every command:", (commands[0], session[0])
    table = [line for line in session[1:] if line.startswith("  --")]
    names = [line.split(None, 1) for line in commands[1:]]
    return Client(head[0].split(": ", 1)[1], [read_command(program, name, about) for name, about in names], rows(table),
                  " ".join(session[1 + len(table):]) + "\n\n" + "\n".join(" ".join(f) for f in footer))


def words_of(option):
    """The values that an option takes, where its help names all of them; else none. `a|b` as its argument, or a text that begins `a, b or c`."""
    if option.arg and re.fullmatch(r"[a-z0-9-]+(\|[a-z0-9-]+)+", option.arg):
        return option.arg.split("|")
    listed = re.match(r"(?:[a-z, ]+: )?([a-z0-9_]+(?:, [a-z0-9_]+)* or [a-z0-9_]+)(?=$|:| *\()", option.about)
    if option.arg and listed and option.arg in ("NAME", "LEVEL", "WHAT"):
        return re.split(", | or ", listed[1])
    return []


def verbs_of(command):
    """Words that come first behind a command's name: those of `key create ... | list | revoke ID`."""
    alternatives = re.split(r" \| ", re.sub(r"\([^()]*\)|\[[^][]*\]", "", command.synopsis.removeprefix(command.name + " ")))
    first = [a.split()[0] for a in alternatives if a.split()]
    return [w for w in first if re.fullmatch("[a-z]+", w) and w != command.name]
