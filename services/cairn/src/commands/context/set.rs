//! `cairn context set`: how much of a context the model is sent, and what happens when a request is too long.

use super::{WindowSize, changed, rpc, window};
use crate::client::Client;
use crate::error::CliError;
use cairn_proto::event::{WhenFull, WhenFullChange, Window, WindowChange};
use clap::{ArgGroup, ValueEnum};

/// The arguments of `cairn context set`.
#[derive(Debug, clap::Args)]
#[command(group(
    ArgGroup::new("change")
        .args(["window", "when_full"])
        .required(true)
        .multiple(true)
))]
pub(super) struct Args {
    /// The session: its id or a unique beginning of it
    #[arg(value_name = "SESSION")]
    pub(super) session: String,
    /// The context
    #[arg(value_name = "NAME")]
    name: String,
    /// Send the model only this many of the latest messages, and those of the turn itself; or all
    #[arg(long, value_name = "N", value_parser = window)]
    window: Option<WindowSize>,
    /// What happens when a request is too long for its model
    #[arg(long, value_name = "ACTION")]
    when_full: Option<Setting>,
}

/// What may be said of requests that are too long, at the creation of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Action {
    /// Older messages give way to a shorter text
    Compact,
    /// The turn fails
    Refuse,
}

/// The same for a context that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Setting {
    /// Older messages give way to a shorter text
    Compact,
    /// The turn fails
    Refuse,
    /// As by default, which is compact
    Default,
}

impl From<Action> for WhenFull {
    fn from(action: Action) -> Self {
        match action {
            Action::Compact => Self::Compact,
            Action::Refuse => Self::Refuse,
        }
    }
}

impl From<Setting> for WhenFull {
    fn from(setting: Setting) -> Self {
        match setting {
            Setting::Compact => Self::Compact,
            Setting::Refuse => Self::Refuse,
            Setting::Default => Self::Unspecified,
        }
    }
}

/// Changes what is given, as one change.
pub(super) async fn run(
    client: &mut Client<'_>,
    session: &str,
    args: Args,
) -> Result<(), CliError> {
    let name = args.name;
    let window = args.window.map(|size| WindowChange {
        window: size.0.map(|messages| Window { messages }),
    });
    let when_full = args.when_full.map(|setting| WhenFullChange {
        when_full: WhenFull::from(setting).into(),
    });
    let what = said(args.window, args.when_full);
    let seq = rpc::update(client, session, &name, (window, when_full)).await?;
    changed(client, session, &name, &what, seq)
}

/// What the context does from now on.
fn said(window: Option<WindowSize>, when_full: Option<Setting>) -> String {
    let window = window.map(|size| match size.0 {
        Some(1) => "has a window of 1 message".to_owned(),
        Some(messages) => format!("has a window of {messages} messages"),
        None => "has no window of its own".to_owned(),
    });
    let when_full = when_full.map(|setting| match setting {
        Setting::Compact => "is compacted when a request is too long",
        Setting::Refuse => "refuses a request that is too long",
        Setting::Default => "is compacted when a request is too long, as by default",
    });
    let said = window.into_iter().chain(when_full.map(str::to_owned));
    said.collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_said() {
        let window = |size| Some(WindowSize(size));
        assert_eq!(said(window(Some(1)), None), "has a window of 1 message");
        assert_eq!(said(window(None), None), "has no window of its own");
        let refuses = "refuses a request that is too long";
        assert_eq!(said(None, Some(Setting::Refuse)), refuses);
        let both = said(window(Some(40)), Some(Setting::Compact));
        let want = "has a window of 40 messages and is compacted when a request is too long";
        assert_eq!(both, want);
    }
}
