"""`python -m systola` is the command line."""

from sw.runtime.cli import main

if __name__ == "__main__":
    main()
