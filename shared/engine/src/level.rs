//! The level of a release: how much it can read of what others have written.

/// The level of this release.
///
/// It grows by 1 with the first change since the last release that a reader of that one does not know: an
/// event kind, a command, an operation, a reason of a refusal, a value of an enum, or a field without which the
/// rest means something else. What is new has the new level on its row (`since`), and keeps it from then on. A
/// value or a field has no row: the `needs` of its event or its command asks for the level where it is used.
///
/// A process of a lower level uses nothing that needs more, and leaves the session to a newer process. So a
/// release may write what it adds from its first day on, and sessions that use none of it stay readable for
/// the release before.
pub const LEVEL: u32 = 1;
