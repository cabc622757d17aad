"""Completion for bash and zsh, from the options' tables. bash gets one function for each program, zsh a list for `_arguments`."""
import re

from help import verbs_of, words_of

FILES = {"FILE": "f", "DIR": "d", "CONFIG": "f"}


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


# ---- bash ------------------------------------------------------------------------------------------------------------

def bash_values(options):
    """Arms of a case: what may follow an option. Where anything may, nothing is offered."""
    out = []
    for o in options:
        if o.arg is None:
            continue
        if words_of(o):
            out.append(f"    --{o.name}) COMPREPLY=($(compgen -W {quoted(' '.join(words_of(o)))} -- \"$cur\")); return ;;")
        elif o.arg in FILES:
            out.append(f"    --{o.name}) compopt -o filenames; COMPREPLY=($(compgen -{FILES[o.arg]} -- \"$cur\")); return ;;")
        else:
            out.append(f"    --{o.name}) return ;;")
    return out


def names(options):
    return " ".join(f"--{o.name}" for o in options)


# readline parts words at = and :, so that a value behind "=" is a word of its own, and the option the one before that.
HEAD = ['    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}',
        '    if [[ $cur == = ]]; then cur=; elif [[ $prev == = && COMP_CWORD -gt 1 ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi']


def bash_server(server):
    options = server.options + server.actions
    return ["# Completion of laplaced for bash; made from its options.", "_laplaced() {", *HEAD, "    case $prev in", *bash_values(options), "    esac",
            f"    COMPREPLY=($(compgen -W {quoted(names(options))} -- \"$cur\"))", "}", "complete -F _laplaced laplaced"]


def bash_client(client):
    """The command is the first word that is neither an option nor what belongs to one."""
    takes = "|".join(f"--{o.name}" for o in client.session if o.arg)
    out = ["# Completion of laplacectl for bash; made from its options.", "_laplacectl() {", *HEAD, "    local i at=0 command=",
           "    for ((i = 1; i < COMP_CWORD; i++)); do", "        case ${COMP_WORDS[i]} in",
           f"        {takes}) ((i++)); if [[ ${{COMP_WORDS[i]}} == = ]]; then ((i++)); fi ;;", "        -* | =) ;;", "        help) ;;",
           "        *) command=${COMP_WORDS[i]}; at=$i; break ;;", "        esac", "    done", "    case $prev in", *bash_values(client.session), "    esac",
           "    local options=" + quoted(names(client.session)) + " verbs=", "    case $command in",
           f"    '') verbs={quoted(' '.join(c.name for c in client.commands) + ' help')} ;;"]
    for c in client.commands:
        out.append(f"    {c.name})")
        if c.options:
            out += ["        case $prev in", *("    " + line for line in bash_values(c.options)), "        esac", f"        options+=\" {names(c.options)}\""]
        if verbs_of(c):
            out.append(f"        if ((COMP_CWORD == at + 1)); then verbs={quoted(' '.join(verbs_of(c)))}; fi")
        out.append("        ;;")
    return out + ["    esac", "    if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"$options\" -- \"$cur\")); return; fi",
                  "    COMPREPLY=($(compgen -W \"$verbs\" -- \"$cur\"))", "}", "complete -o bashdefault -o default -F _laplacectl laplacectl"]


# ---- zsh -------------------------------------------------------------------------------------------------------------

def zsh_row(o):
    about = re.sub(r"([][:\\])", r"\\\1", o.about)
    many = "*" if "may be repeated" in o.about or "several" in o.about else ""
    if o.arg is None:
        return quoted(f"{many}--{o.name}[{about}]")
    action = f"({' '.join(words_of(o))})" if words_of(o) else {"f": "_files", "d": "_files -/"}.get(FILES.get(o.arg), " ")
    arg = re.sub(r"([:\\])", r"\\\1", o.arg.lower())
    return quoted(f"{many}--{o.name}=[{about}]:{arg}:{action}")


def zsh_rows(options, indent):
    return [f"{indent}{zsh_row(o)} \\" for o in options]


def zsh_described(pairs, indent):
    return [indent + quoted(name + ":" + about.replace("\\", "\\\\").replace(":", "\\:")) for name, about in pairs]


def zsh_server(server):
    return ["#compdef laplaced", "# Completion of laplaced for zsh; made from its options.", "_arguments -S \\",
            *zsh_rows(server.options + server.actions, "    "), "    && return 0"]


def zsh_client(client):
    out = ["#compdef laplacectl", "# Completion of laplacectl for zsh; made from its options.", "local curcontext=$curcontext state line ret=1",
           "typeset -A opt_args", "local -a commands session", "commands=(", *zsh_described(((c.name, c.about) for c in client.commands), "    "), ")", "session=(",
           *(f"    {zsh_row(o)}" for o in client.session), ")", "_arguments -C -S $session '1: :->command' '*:: :->rest' && ret=0",
           "case $state in", "command) _describe -t commands command commands && ret=0 ;;", "rest)", "    case $words[1] in"]
    for c in client.commands:
        first = f"'1: :({' '.join(verbs_of(c))})' '*: :_files'" if verbs_of(c) else "'*: :_files'"
        out += [f"    {c.name})", "        _arguments -S $session \\", *zsh_rows(c.options, "            "), f"            {first} && ret=0", "        ;;"]
    return out + ["    esac", "    ;;", "esac", "return ret"]
