"""``python -m oracle``: the command ``draft-oracle``."""

from oracle.cli.main import main

if __name__ == "__main__":
    main()
