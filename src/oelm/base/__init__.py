"""Level 0: errors that name the fix, files that are whole or absent, named random streams, the machine."""
