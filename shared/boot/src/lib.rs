//! How a process starts and stops: configuration, logs, signals, drain.
