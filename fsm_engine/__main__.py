"""`python -m fsm_engine`: the command line."""

from fsm_engine.cli import main

if __name__ == "__main__":
    main()
