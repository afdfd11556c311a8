//! The tools service: registry, schemas, guards, the last gate before a side effect.
