//! For tests only: a whole Cairn in one process, crash and repeat harness.
