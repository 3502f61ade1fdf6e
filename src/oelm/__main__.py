"""`python -m oelm` and `torchrun -m oelm`."""

from oelm.cli.main import main

if __name__ == "__main__":
    main()
