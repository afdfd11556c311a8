//! `cairn context`: the contexts of a session, which conversations continue.

mod compact;
pub(super) mod compaction;
mod destroy;
mod export;
mod import;
pub(super) mod list;
mod remove;
pub(super) mod rpc;
mod set;
mod show;

pub(super) use compact::KEEP;

use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use cairn_proto::event::{CreateContext, WhenFull, Window};
use cairn_rpc::text::escape;
use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// The arguments of `cairn context`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A context is a conversation with a system prompt and messages of its own. Every session has the
context main. A turn continues the active context, unless it names another one.

Examples:
  cairn context list
  cairn context new s-7f3k draft --system \"You write drafts.\"
  cairn context switch s-7f3k draft
  cairn context set s-7f3k draft --window 20
  cairn context compact s-7f3k --context draft --keep 4
  cairn context remove s-7f3k draft 0-19
  cairn context export s-7f3k --context draft > draft.jsonl
  cairn context import s-9a2c draft.jsonl
  cairn context destroy s-7f3k draft --conclude \"tone=dry\"")]
pub struct Args {
    /// What to do
    #[command(subcommand)]
    action: Action,
}

/// The size of a window; none for all messages.
#[derive(Debug, Clone, Copy)]
struct WindowSize(Option<u32>);

fn window(text: &str) -> Result<WindowSize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    match (text, number) {
        ("all", _) => Ok(WindowSize(None)),
        (_, Some(number)) => Ok(WindowSize(Some(number))),
        (_, None) => Err(format!("a number from 1 to {}, or all", u32::MAX)),
    }
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the contexts of a session
    List {
        /// The session: its id or a unique beginning of it [default: the latest]
        #[arg(value_name = "SESSION")]
        session: Option<String>,
    },
    /// Show the messages of a context
    Show {
        /// The session: its id or a unique beginning of it [default: the latest]
        #[arg(value_name = "SESSION")]
        session: Option<String>,
        /// The context [default: the active one]
        #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        context: Option<String>,
        /// Only the messages in the context's window
        #[arg(long)]
        in_window: bool,
    },
    /// Write the messages of a context as JSON lines
    Export {
        /// The session: its id or a unique beginning of it [default: the latest]
        #[arg(value_name = "SESSION")]
        session: Option<String>,
        /// The context [default: the active one]
        #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        context: Option<String>,
        /// Write to this file, which only you may read [default or -: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Add the messages of JSON lines to a context
    Import(import::Args),
    /// Create a context
    New {
        /// The session: its id or a unique beginning of it
        #[arg(value_name = "SESSION")]
        session: String,
        /// The name: 1 to 64 characters of a-z, A-Z, 0-9, ., - and _
        #[arg(value_name = "NAME")]
        name: String,
        /// The system prompt of the context
        #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
        system: Option<String>,
        /// Send the model only this many of the latest messages, and those of the turn itself; or all
        /// [default: as the agent says, or all]
        #[arg(long, value_name = "N", value_parser = window)]
        window: Option<WindowSize>,
        /// What happens when a request is too long for its model [default: compact]
        #[arg(long, value_name = "ACTION")]
        when_full: Option<set::Action>,
    },
    /// Change how much of a context the model is sent, and what happens when a request is too long
    Set(set::Args),
    /// Let a model write a summary of older messages, which takes their place
    Compact(compact::Args),
    /// Remove messages from a context
    Remove(remove::Args),
    /// Make a context the active one
    Switch {
        /// The session: its id or a unique beginning of it
        #[arg(value_name = "SESSION")]
        session: String,
        /// The context
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Destroy a context, and keep what it concluded
    Destroy(destroy::Args),
}

impl Action {
    fn access(&self) -> Access {
        match self {
            Self::List { .. } | Self::Show { .. } | Self::Export { .. } => Access::Read,
            Self::Import(_) | Self::New { .. } | Self::Set(_) => Access::Change,
            Self::Remove(_) | Self::Switch { .. } => Access::Change,
            Self::Destroy(args) => args.access(),
            Self::Compact(_) => Access::Own,
        }
    }

    fn session(&self) -> Option<&str> {
        match self {
            Self::List { session } | Self::Show { session, .. } | Self::Export { session, .. } => {
                session.as_deref()
            }
            Self::New { session, .. } | Self::Switch { session, .. } => Some(session),
            Self::Set(args) => Some(&args.session),
            Self::Compact(args) => args.session.as_deref(),
            Self::Import(args) => Some(&args.session),
            Self::Remove(args) => Some(&args.session),
            Self::Destroy(args) => Some(&args.session),
        }
    }
}

impl Args {
    /// The model that the command names.
    pub(super) fn model(&self) -> Option<String> {
        match &self.action {
            Action::Compact(args) => args.model.clone(),
            _ => None,
        }
    }
}

/// Reads or changes contexts.
///
/// # Errors
/// No such session or context, or a context that a turn works on.
pub async fn run(mut args: Args, context: &Context) -> Result<ExitCode, CliError> {
    match &mut args.action {
        Action::Destroy(args) => args.agree(context).await?,
        Action::Remove(args) => args.agree(context).await?,
        Action::Compact(args) => args.prepare(context).await?,
        _ => {}
    }
    let mut client = Client::attach(context, args.action.access()).await?;
    let done = Box::pin(act(&mut client, args.action)).await;
    client.finish().await;
    done
}

async fn act(client: &mut Client<'_>, action: Action) -> Result<ExitCode, CliError> {
    let session = client.resolve(action.session()).await?;
    match action {
        Action::List { .. } => list::run(client, &session).await?,
        Action::Show {
            context, in_window, ..
        } => show::run(client, session, context.unwrap_or_default(), in_window).await?,
        Action::Export {
            context, output, ..
        } => {
            export::run(
                client,
                session,
                context.unwrap_or_default(),
                output.as_deref(),
            )
            .await?
        }
        Action::Import(args) => import::run(client, session, args).await?,
        Action::New {
            name,
            system,
            window,
            when_full,
            ..
        } => {
            let context = CreateContext {
                name: name.clone(),
                system_prompt: system.unwrap_or_default(),
                immutable: Vec::new(),
                window: window
                    .and_then(|size| size.0)
                    .map(|messages| Window { messages }),
                when_full: when_full
                    .map_or(WhenFull::Unspecified, WhenFull::from)
                    .into(),
                ..CreateContext::default()
            };
            let seq = rpc::create(client, &session, context).await?;
            changed(client, &session, &name, "was created", seq)?;
        }
        Action::Set(args) => set::run(client, &session, args).await?,
        Action::Compact(args) => Box::pin(compact::run(client, &session, args)).await?,
        Action::Remove(args) => remove::run(client, &session, args).await?,
        Action::Switch { name, .. } => {
            let seq = rpc::switch(client, &session, &name).await?;
            changed(client, &session, &name, "is the active one", seq)?;
        }
        Action::Destroy(args) => return destroy::run(client, &session, args).await,
    }
    Ok(ExitCode::SUCCESS)
}

/// Says what has changed.
fn changed(
    client: &Client<'_>,
    session: &str,
    name: &str,
    what: &str,
    seq: u64,
) -> Result<(), CliError> {
    if client.context().json {
        return out::json(&json!({"session": session, "context": name, "seq": seq}));
    }
    out::line(&escape(&format!("context {name} of {session} {what}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_a_number_or_all() {
        let size = |text| window(text).map(|size| size.0);
        assert_eq!(size("all"), Ok(None));
        assert_eq!(size("20"), Ok(Some(20)));
        for wrong in ["0", "-1", "4294967296", "many", ""] {
            let error = size(wrong).unwrap_err();
            assert_eq!(error, "a number from 1 to 4294967295, or all", "{wrong}");
        }
    }
}
