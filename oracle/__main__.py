"""The command ``draft-oracle``, also as ``python -m oracle``: what must be in place before anything is loaded."""

from oracle.cli import signals


def main() -> None:
    """Run the command line; a signal that comes while it is loaded ends it without a traceback."""
    signals.leave_at_once()
    from oracle.cli.main import main as run  # noqa: PLC0415

    run()


if __name__ == "__main__":
    main()
