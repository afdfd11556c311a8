//! Sizes that the core holds to. The store has limits of its own.

/// Most bytes of the notes of one step.
pub const MAX_NOTES: usize = 16 * 1024;
/// Most sub-goals of one attempt.
pub const MAX_SUB_GOALS: usize = 100;
/// Most bytes of a key of session memory.
pub const MAX_MEMORY_KEY: usize = 128;
/// Most bytes of a value of session memory.
pub const MAX_MEMORY_VALUE: usize = 64 * 1024;
/// Most bytes of all keys and values of a session's memory that a run may set. The store lets
/// clients fill less, and takes this much on top of what they have filled, so that it never refuses
/// what was decided here.
pub const MAX_MEMORY_BYTES: usize = 2 * 1024 * 1024;
/// Most keys of a session's memory that a run may set; the store has room for them as for the bytes.
pub const MAX_MEMORY_KEYS: usize = 1024;
/// Most bytes of a goal.
pub const MAX_GOAL: usize = 64 * 1024;
