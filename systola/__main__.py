"""`python -m systola` is the command line."""

from sw.cli.main import main

if __name__ == "__main__":
    main()
