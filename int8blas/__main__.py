"""``python -m int8blas`` prints the configuration; ``bench`` measures, ``check`` checks bits, ``onnx`` runs a file."""

import argparse
import sys
from typing import NoReturn

from int8blas import __version__, show_config
from int8blas._bench import command
from int8blas._golden import command as golden_command
from int8blas._version import commit
from int8blas.onnx import command as onnx_command


class Version(argparse.Action):
    """Print the version and the commit. Only the option ``--version`` looks up the commit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        known = commit()
        print(f"int8blas {__version__}{f' ({known})' if known else ''}")
        parser.exit()


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")


def main() -> int:
    parser = Parser(
        prog="python -m int8blas", description="Exact 8-bit integer matrix multiplication for NumPy arrays."
    )
    parser.add_argument("--version", action=Version, nargs=0, help="print the version, and the commit if it is known")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", help="config, if there is none")
    summary = "print the version, the CPU, instruction sets and threads"
    commands.add_parser("config", help=summary, description=f"{summary.capitalize()}.")
    command.add_options(commands.add_parser("bench", help=command.SUMMARY, description=command.DESCRIPTION))
    golden_command.add_options(
        commands.add_parser("check", help=golden_command.SUMMARY, description=golden_command.DESCRIPTION)
    )
    onnx_command.add_options(
        commands.add_parser("onnx", help=onnx_command.SUMMARY, description=onnx_command.DESCRIPTION)
    )
    options = parser.parse_args()
    if options.command == "bench":
        return command.main(options)
    if options.command == "check":
        return golden_command.main(options)
    if options.command == "onnx":
        return onnx_command.main(options)
    show_config()
    return 0


if __name__ == "__main__":
    sys.exit(main())
