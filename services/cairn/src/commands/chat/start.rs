//! The beginning of a conversation: its session, its context, and a turn that was interrupted.

use super::{Args, Chat, agent, mode};
use crate::client::Client;
use crate::commands::agent::workspace::report_model;
use crate::commands::context::rpc;
use crate::commands::follow;
use crate::commands::mode::ModeName;
use crate::error::CliError;
use crate::ui::modes;
use crate::ui::text::command;
use cairn_engine::session::MAIN;
use cairn_proto::event::command::Kind as CommandKind;
use cairn_proto::event::event::Kind;
use cairn_proto::event::{Mode, SubmitTurn};
use cairn_proto::orchestrator::{
    ExportSessionRequest, GetSessionRequest, Session, SubmitTurnRequest,
};
use cairn_rpc::text::escape;
use std::collections::BTreeMap;
use unicode_width::UnicodeWidthStr as _;

/// Finds the session and the context, or names a session that is to be created.
pub(super) async fn conversation<'c, 'a>(
    client: &'c mut Client<'a>,
    args: Args,
) -> Result<Chat<'c, 'a>, CliError> {
    let is_new = args.session.is_none();
    let session = match &args.session {
        Some(given) => client.resolve(Some(given)).await?,
        None => new_session(),
    };
    if !is_new {
        client.work_on(&session)?;
    }
    match &args.context {
        Some(name) if is_new && name != MAIN => {
            let message = format!("a new session has no context {name}");
            let create = format!("/context new {name}");
            let hint = format!("begin without --context, and enter: {create}");
            return Err(CliError::usage(message).hint(hint));
        }
        Some(name) if !is_new => check_context(client, &session, name).await?,
        _ => {}
    }
    let wanted = match &args.agent {
        Some(name) => Some(agent::found(client, name).await?),
        None => None,
    };
    if let Some(name) = wanted
        .as_deref()
        .filter(|name| !name.is_empty() && args.model.is_none())
    {
        report_model(client, name).await;
    }
    Ok(Chat {
        client,
        session,
        is_new,
        context: args.context.unwrap_or_default(),
        active: MAIN.to_owned(),
        is_gone: false,
        model: args.model.unwrap_or_default(),
        agent: String::new(),
        wanted: wanted.filter(|name| !(is_new && name.is_empty())),
        mode: Mode::Ask,
        wanted_mode: args.mode.map(ModeName::of_contract),
        answers_questions: false,
        leaving: super::Leaving::default(),
    })
}

/// An id for a session that is not there, so that it can be shown before anything is said.
pub(super) fn new_session() -> String {
    let random = uuid::Uuid::now_v7().simple().to_string();
    // The last digits of a UUID of this version are random; the first are the time. With 52 bits, none of a
    // million others has the same: such a conversation would continue in it.
    format!("s-{}", &random[19..])
}

async fn check_context(client: &mut Client<'_>, session: &str, name: &str) -> Result<(), CliError> {
    let contexts = rpc::list(client, session).await?;
    if contexts.iter().any(|context| context.name == name) {
        return Ok(());
    }
    let make = command(client.context(), &format!("context new {session} {name}"));
    let message = format!("session {session} has no context {name}");
    Err(CliError::usage(message).hint(format!("create it with: {make}")))
}

/// The lines above a conversation, in so many columns.
pub(super) fn header(chat: &Chat<'_, '_>, columns: usize) -> Vec<String> {
    let context = chat.client.context();
    let mut lines: Vec<String> = follow::workers(chat.client).into_iter().collect();
    let mut place = format!("session {}", chat.session);
    if !chat.context.is_empty() {
        place.push_str(&format!(" · context {}", chat.context));
    }
    if !chat.agent.is_empty() || chat.wanted.is_some() {
        place.push_str(&format!(" · agent {}", agent::current(chat)));
    }
    let named = Some(chat.model.clone()).filter(|named| !named.is_empty());
    let model = chat.client.model(named, chat.next_agent());
    if !model.is_empty() {
        place.push_str(&format!(" · model {model}"));
    }
    place.push_str(&format!(" · mode {}", modes::name(mode::current(chat))));
    if !chat.client.attached().is_remote() {
        let workspace = context.config().workspace.path.display();
        place.push_str(&format!(" · workspace {workspace}"));
    }
    lines.push(place);
    lines.push(format!(
        "come back with: {} · /help lists the commands",
        chat.come_back()
    ));
    let lines = lines.iter().map(|line| escape(line).into_owned());
    lines.flat_map(|line| parts(&line, columns)).collect()
}

/// A line of parts in lines of so many columns, none of which breaks a part.
fn parts(line: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in line.split(" · ") {
        match lines.last_mut() {
            Some(last) if last.width() + part.width() + 3 <= columns => {
                last.push_str(" · ");
                last.push_str(part);
            }
            Some(_) => lines.push(format!("  {part}")),
            None => lines.push(part.to_owned()),
        }
    }
    lines
}

/// Says that the cost of the model that the conversation begins with is not known, if a process like this one would
/// ask it.
pub(super) fn without_price(chat: &Chat<'_, '_>) -> Option<String> {
    let named = Some(chat.model.clone()).filter(|named| !named.is_empty());
    let name = chat.client.model(named, chat.next_agent());
    if name.is_empty() || chat.client.attached().is_remote() {
        return None;
    }
    let model = chat.client.context().config().registry().get(&name).ok()?;
    let is_known = model.describe().prices.is_some();
    let name = escape(&name);
    (!is_known).then(|| format!("no price is known for the model {name}: its cost counts as 0"))
}

/// The state of the session.
pub(super) async fn session(chat: &Chat<'_, '_>) -> Result<Session, CliError> {
    let request = GetSessionRequest {
        session: chat.session.clone(),
    };
    let answer = chat.client.patiently(|mut orchestrator| {
        let request = request.clone();
        async move { orchestrator.get_session(request).await }
    });
    Ok(answer.await?.session.unwrap_or_default())
}

/// The request of a turn, as after a crash: the same request streams it again. `None` if the turn is not
/// that of a request.
pub(super) async fn request_of(
    chat: &Chat<'_, '_>,
    run: u32,
) -> Result<Option<SubmitTurnRequest>, CliError> {
    let request = ExportSessionRequest {
        session: chat.session.clone(),
    };
    let mut orchestrator = chat.client.orchestrator();
    let mut events = orchestrator.export_session(request).await?.into_inner();
    let mut submitted = Submitted::default();
    while let Some(message) = events.message().await? {
        let event = message.event.unwrap_or_default();
        if let Some(kind) = event.kind {
            submitted.take(message.seq, event.answers, kind, run);
        }
    }
    let request = submitted
        .of_run
        .map(|(request_id, turn)| SubmitTurnRequest {
            session: chat.session.clone(),
            request_id,
            turn: Some(turn),
            after_seq: 0,
        });
    Ok(request)
}

/// The turns that were submitted, by the events that stored them.
#[derive(Debug, Default)]
struct Submitted {
    open: BTreeMap<u64, (String, SubmitTurn)>,
    of_run: Option<(String, SubmitTurn)>,
}

impl Submitted {
    fn take(&mut self, seq: u64, answers: u64, kind: Kind, run: u32) {
        match kind {
            Kind::CommandReceived(received) => {
                let command = received.command.and_then(|command| command.kind);
                if let Some(CommandKind::SubmitTurn(turn)) = command {
                    self.open.insert(seq, (received.request_id, turn));
                }
            }
            Kind::RunStarted(started) => {
                let queued = started.turn.map_or(0, |turn| turn.queued);
                let by = if queued > 0 { queued } else { answers };
                let turn = self.open.remove(&by);
                if started.run == run {
                    self.of_run = turn;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::event::{Command, CommandReceived, RunStarted, StartedTurn};

    fn command(request_id: &str) -> Kind {
        let turn = SubmitTurn {
            context: request_id.to_uppercase(),
            ..SubmitTurn::default()
        };
        Kind::CommandReceived(CommandReceived {
            request_id: request_id.to_owned(),
            command: Some(Command {
                kind: Some(CommandKind::SubmitTurn(turn)),
            }),
        })
    }

    fn started(run: u32, queued: u64) -> Kind {
        Kind::RunStarted(RunStarted {
            run,
            turn: Some(StartedTurn {
                queued,
                ..StartedTurn::default()
            }),
            ..RunStarted::default()
        })
    }

    #[test]
    fn the_lines_above_a_conversation_are_broken_between_their_parts() {
        let line = "session s-1 · mode ask · workspace /a b";
        assert_eq!(parts(line, 39), [line]);
        let expected = ["session s-1 · mode ask", "  workspace /a b"];
        assert_eq!(parts(line, 38), expected);
    }

    #[test]
    fn the_request_of_a_run_is_the_one_that_its_start_answers() {
        let mut submitted = Submitted::default();
        submitted.take(2, 0, command("first"), 2);
        submitted.take(3, 2, started(1, 0), 2);
        submitted.take(8, 0, command("queued"), 2);
        submitted.take(9, 0, command("refused"), 2);
        submitted.take(12, 0, started(2, 8), 2);
        let (request_id, turn) = submitted.of_run.unwrap();
        assert_eq!(
            (request_id.as_str(), turn.context.as_str()),
            ("queued", "QUEUED")
        );
    }
}
