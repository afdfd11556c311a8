//! What a session lets its models do without being asked.

use serde::{Deserialize, Serialize};

/// How calls of a session are judged beside the rules. A copy of a session begins with [`Mode::Ask`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// As the rules and the defaults of tools say.
    #[default]
    Ask,
    /// Nothing is changed: models call tools that only read, and those of the session itself.
    Plan,
    /// As [`Mode::Ask`], but writes of files in the workspace pass where only a tool's default asks.
    AcceptEdits,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ask, Self::Plan, Self::AcceptEdits];

    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Plan => "plan",
            Self::AcceptEdits => "accept-edits",
        }
    }

    /// The mode of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_found_by_its_name_alone() {
        for mode in Mode::ALL {
            assert_eq!(Mode::named(mode.name()), Some(mode));
        }
        for name in ["", "Plan", "accept_edits", "bypass"] {
            assert_eq!(Mode::named(name), None, "{name}");
        }
        assert_eq!(Mode::default(), Mode::Ask);
    }
}
