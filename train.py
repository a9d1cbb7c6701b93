"""`python train.py FLAGS` is `manyhands train FLAGS`: a file for launchers that start a script."""

from manyhands.cli.main import train_main

if __name__ == "__main__":
    train_main()
