"""The supervisor as a program of its own: `python -m pipeline.embedded`, started by `pipeline.embedded.stack`."""

import argparse
import asyncio
import os
import sys
from pathlib import Path

from pipeline.embedded.errors import StackError
from pipeline.embedded.services import ServerOptions
from pipeline.embedded.serving import StackOptions, serve
from pipeline.settings import SettingsError, read_settings


def main() -> None:
    """Serve one stack; status 1 and the reason on stderr where that is impossible."""
    arguments = _parser().parse_args()
    options = StackOptions(
        with_flower=arguments.with_flower,
        with_api=arguments.with_api,
        cpu_slots=arguments.cpu_slots,
        dispatchers=arguments.dispatchers,
        while_attached=arguments.while_attached,
        only_servers=arguments.only_servers,
        servers=ServerOptions(
            fsync=not arguments.no_fsync,
            max_connections=arguments.max_connections,
            broker_databases=arguments.broker_databases,
        ),
    )
    # What settings say of a stack that runs is about this home.
    os.environ["MUNIMENT_HOME"] = str(arguments.home)
    try:
        asyncio.run(serve(arguments.home, read_settings(), options=options))
    except (StackError, SettingsError) as error:
        sys.exit(str(error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pipeline.embedded")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--with-flower", action="store_true")
    parser.add_argument("--with-api", action="store_true")
    parser.add_argument("--cpu-slots", type=int)
    parser.add_argument("--dispatchers", type=int, default=StackOptions().dispatchers)
    parser.add_argument("--while-attached", action="store_true")
    parser.add_argument("--only-servers", action="store_true")
    parser.add_argument("--no-fsync", action="store_true")
    parser.add_argument("--max-connections", type=int, default=ServerOptions().max_connections)
    parser.add_argument("--broker-databases", type=int, default=ServerOptions().broker_databases)
    return parser


if __name__ == "__main__":
    main()
