//! How pages and messages are found again: terms, index, scores. No I/O.
