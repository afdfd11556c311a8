//! What a command comes for.

use crate::node::Parts;
use cairn_tools::mcp::{Origin, SEPARATOR};

/// What a command wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Look only; never takes the lock.
    Read,
    /// Change something of a session that is there, and leave. Nothing is carried out meanwhile, of no
    /// session.
    Change,
    /// The same in a store that is made if there is none, for what belongs to no session.
    Make,
    /// Work on the sessions that are started, resumed or changed through this process, for as long as
    /// it takes.
    Own,
    /// Work on all sessions for as long as it takes.
    Hold,
}

impl Access {
    /// Whether it holds the store for one change at most.
    pub(super) fn changes(self) -> bool {
        matches!(self, Self::Change | Self::Make)
    }

    /// Whether steps are carried out.
    pub(super) fn works(self) -> bool {
        matches!(self, Self::Own | Self::Hold)
    }
}

/// The servers of tools that a command needs, if it holds the store itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Servers {
    /// All, which are waited for while they start.
    #[default]
    All,
    /// All, as they are.
    Present,
    /// The one of this name.
    Only(String),
    /// None.
    None,
}

impl Servers {
    /// Those that most commands of this access need: a change of a session calls no tool.
    pub fn of_access(access: Access) -> Self {
        match access {
            Access::Change => Self::None,
            Access::Read | Access::Make | Access::Own | Access::Hold => Self::All,
        }
    }

    /// The server of this name, or that of the tool of this name.
    pub fn of(name: &str) -> Self {
        let server = name.split_once(SEPARATOR);
        Self::Only(server.map_or(name, |(server, _)| server).to_owned())
    }

    /// Leaves the others out of the start, so that no command waits for one that it does not need.
    pub(super) fn hold_back_others(&self, parts: &mut Parts) {
        let is_needed = |name: &String| match self {
            Self::All | Self::Present => true,
            Self::Only(only) => name == only,
            Self::None => false,
        };
        let servers = parts.tools.servers.iter_mut();
        for (_, server) in servers.filter(|(name, _)| !is_needed(name)) {
            server.origin = Origin::NotNeeded;
        }
    }
}
