//! What a command comes for.

/// What a command wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Look only; never takes the lock.
    Read,
    /// Change something of a session and leave. Nothing is carried out meanwhile, of no session.
    Change,
    /// Work on the sessions that are started, resumed or changed through this process, for as long as
    /// it takes.
    Own,
    /// Work on all sessions for as long as it takes.
    Hold,
}

impl Access {
    /// Whether steps are carried out.
    pub(super) fn works(self) -> bool {
        matches!(self, Self::Own | Self::Hold)
    }
}
