#!/usr/bin/env python3
"""Writes what an installed program wants beside itself: manual pages, completion, and an example of the configuration file.

    tools/pages/pages.py LAPLACED LAPLACECTL FOLDER      the two programs, and where to write

All of it is made from the programs' --help, so an option that is new is in all of it. The date of the pages is that of
SOURCE_DATE_EPOCH, so that two builds of one source are the same.
"""
import os
import pathlib
import sys
import time

import complete
import help as programs
import manual


def main(laplaced, laplacectl, folder):
    server, client = programs.read_server(laplaced), programs.read_client(laplacectl)
    date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())))
    pages = {
        "laplaced.8": manual.server_page(server, date),
        "laplaced.conf.5": manual.conf_page(server, date),
        "laplacectl.1": manual.client_page(client, server.version, date),
        "laplaced.conf.example": manual.example(server),
        "laplaced.bash": complete.bash_server(server),
        "laplacectl.bash": complete.bash_client(client),
        "_laplaced": complete.zsh_server(server),
        "_laplacectl": complete.zsh_client(client),
    }
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in pages.items():
        (folder / name).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
