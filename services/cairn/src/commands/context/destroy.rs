//! `cairn context destroy`: a context goes, and what it concluded stays.

use super::super::confirm::{agree, is_at_terminal};
use super::rpc;
use crate::attach::Access;
use crate::client::{Client, Watched};
use crate::context::Context;
use crate::error::{CliError, FAILURE, WAITING};
use crate::ui::event_line::{failure_text, waits_for};
use crate::ui::out;
use crate::ui::text::command;
use cairn_engine::limits::MAX_MEMORY_KEY;
use cairn_proto::event::DestroyContext;
use cairn_proto::event::event::Kind;
use cairn_rpc::text::{clip, escape};
use serde_json::json;
use std::collections::BTreeSet;
use std::process::ExitCode;

/// The arguments of `cairn context destroy`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
What the context concluded is stored in session memory: the pairs of --conclude, or with --ask-model
what the model stores in one last turn. With neither, nothing is stored. The context main stays. At a
terminal you are asked first.

With --json one object: session, context, seq, run (0 unless the model is asked).")]
pub(super) struct Args {
    /// The session: its id or a unique beginning of it
    #[arg(value_name = "SESSION")]
    pub(super) session: String,
    /// The context
    #[arg(value_name = "NAME")]
    name: String,
    /// Store this pair in session memory; may be repeated
    #[arg(long = "conclude", value_name = "KEY=VALUE", value_parser = pair)]
    conclusions: Vec<(String, String)>,
    /// Destroy it without asking
    #[arg(long, short)]
    yes: bool,
    /// Let the model store what is to stay, in one last turn
    #[arg(long)]
    ask_model: bool,
}

impl Args {
    /// The last turn takes a process that works.
    pub(super) fn access(&self) -> Access {
        match self.ask_model {
            true => Access::Own,
            false => Access::Change,
        }
    }

    /// Asks the person at the terminal, while nothing holds the store.
    ///
    /// # Errors
    /// Two values for one key; no such session or context; the person does not agree.
    pub(super) async fn agree(&self, context: &Context) -> Result<(), CliError> {
        check_keys(&self.conclusions)?;
        if self.yes || !is_at_terminal(context) {
            return Ok(());
        }
        let mut reader = Client::attach(context, Access::Read).await?;
        let question = self.question(&mut reader).await;
        reader.finish().await;
        agree(context, &escape(&question?)).await
    }

    async fn question(&self, reader: &mut Client<'_>) -> Result<String, CliError> {
        let session = reader.resolve(Some(&self.session)).await?;
        let messages = rpc::count(reader, &session, &self.name).await?.messages;
        let name = &self.name;
        Ok(format!(
            "Destroy the context {name} of {session} with its {messages} messages?"
        ))
    }
}

/// Each key has one value: of two, one would be lost without a word.
fn check_keys(pairs: &[(String, String)]) -> Result<(), CliError> {
    let mut keys = BTreeSet::new();
    for (key, _) in pairs {
        if !keys.insert(key) {
            let message = format!(
                "--conclude names the key {} twice",
                clip(key, MAX_MEMORY_KEY)
            );
            return Err(CliError::usage(message).hint("give each key one value"));
        }
    }
    Ok(())
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = pair.ok_or("a key, =, and a value, such as tone=dry")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Destroys the context, and waits for its last turn.
pub(super) async fn run(
    client: &mut Client<'_>,
    session: &str,
    args: Args,
) -> Result<ExitCode, CliError> {
    let request = DestroyContext {
        context: args.name.clone(),
        conclusions: args.conclusions.into_iter().collect(),
        ask_model: args.ask_model,
    };
    client.work_on(session)?;
    let answer = rpc::destroy(client, session, request).await?;
    if client.context().json {
        out::json(&json!({
            "session": session,
            "context": args.name,
            "seq": answer.seq,
            "run": answer.run,
        }))?;
    }
    if answer.run > 0 {
        last_turn(client, session, answer.seq.saturating_sub(1), answer.run).await?;
    }
    if !client.context().json {
        let text = format!("context {} of {session} was destroyed", args.name);
        out::line(&escape(&text))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits until the turn has completed.
async fn last_turn(
    client: &mut Client<'_>,
    session: &str,
    after: u64,
    run: u32,
) -> Result<(), CliError> {
    let context = client.context();
    let mut events = client.watch(session, after);
    while let Some(watched) = events.next().await? {
        let Watched::Event { event, .. } = watched else {
            continue;
        };
        let (why, code) = match event.kind {
            Some(Kind::RunCompleted(completed)) if completed.run == run => return Ok(()),
            Some(Kind::RunFailed(failed)) if failed.run == run => {
                (failure_text(failed.failure.as_ref()), FAILURE)
            }
            Some(Kind::RunCancelled(cancelled)) if cancelled.run == run => {
                ("its last turn was cancelled".to_owned(), FAILURE)
            }
            Some(Kind::RunWaiting(waiting)) if waiting.run == run => {
                (waits_for(waiting.reason).to_owned(), WAITING)
            }
            _ => continue,
        };
        let pending = command(context, &format!("pending {session}"));
        let error = CliError::new(format!("the context stays for now: {why}")).code(code);
        return Err(match code {
            WAITING => error.hint(format!("see what waits with: {pending}")),
            _ => error,
        });
    }
    Err(CliError::new("interrupted; the context stays for now"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_have_a_key() {
        let want = ("tone".to_owned(), "a=b".to_owned());
        assert_eq!(pair("tone=a=b"), Ok(want));
        assert_eq!(pair("tone=").unwrap().1, "");
        assert!(pair("tone").is_err() && pair("=dry").is_err());
    }

    #[test]
    fn each_key_has_one_value() {
        let pairs = |texts: [&str; 2]| texts.map(|text| pair(text).unwrap());
        assert_eq!(check_keys(&pairs(["a=1", "b=1"])), Ok(()));
        let error = check_keys(&pairs(["a=1", "a=2"])).unwrap_err();
        assert_eq!(error.message, "--conclude names the key a twice");
    }
}
