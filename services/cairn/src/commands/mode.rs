//! The mode of a session: what its models do without asking.

use crate::client::Client;
use crate::error::CliError;
use crate::ui::modes;
use cairn_proto::event::Mode;
use cairn_proto::orchestrator::SetModeRequest;
use clap::ValueEnum;

/// A mode, as people name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ModeName {
    /// Models read files, and change nothing but their own notes
    Plan,
    /// Writes and commands ask, unless a rule or an approval allows them
    Ask,
    /// Writes in the workspace are made without asking; commands ask
    AcceptEdits,
}

impl ModeName {
    /// Its name in the contract.
    pub(super) const fn of_contract(self) -> Mode {
        match self {
            Self::Plan => Mode::Plan,
            Self::Ask => Mode::Ask,
            Self::AcceptEdits => Mode::AcceptEdits,
        }
    }

    /// The mode that people name so.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::from_str(name, false).ok()
    }

    /// All names: `plan, ask, accept-edits`.
    pub(super) fn all() -> String {
        let modes = Self::value_variants().iter();
        let names = modes.map(|mode| modes::name(mode.of_contract()));
        names.collect::<Vec<_>>().join(", ")
    }
}

/// Gives a session another mode. It counts for calls that are judged from now on.
///
/// # Errors
/// The service's.
pub(super) async fn set(
    client: &mut Client<'_>,
    session: &str,
    mode: Mode,
) -> Result<(), CliError> {
    let request = SetModeRequest {
        session: session.to_owned(),
        request_id: format!("mode-{}", uuid::Uuid::now_v7().simple()),
        mode: mode.into(),
    };
    let set = client.persist_contexts(|mut contexts| {
        let request = request.clone();
        async move { contexts.set_mode(request).await }
    });
    set.await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_has_one_name_everywhere() {
        for mode in ModeName::value_variants() {
            let name = modes::name(mode.of_contract());
            assert_eq!(ModeName::named(name), Some(*mode));
            assert!(ModeName::all().contains(name));
            let flag = mode.to_possible_value().unwrap();
            assert_eq!(flag.get_name(), name);
        }
        for name in ["", "Plan", "accept_edits", "yolo"] {
            assert_eq!(ModeName::named(name), None, "{name}");
        }
        assert_eq!(modes::name(Mode::default()), "ask");
    }
}
