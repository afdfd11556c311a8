//! The beginning of a conversation: its session, its context, and a turn that was interrupted.

use super::{Args, Chat, new_id};
use crate::client::Client;
use crate::commands::context::rpc;
use crate::commands::follow;
use crate::error::CliError;
use crate::ui::text::command;
use cairn_proto::event::command::Kind as CommandKind;
use cairn_proto::event::event::Kind;
use cairn_proto::event::{CreateContext, SubmitTurn};
use cairn_proto::orchestrator::{
    CreateSessionRequest, ExportSessionRequest, GetSessionRequest, Session, SubmitTurnRequest,
};
use cairn_rpc::text::escape;
use std::collections::BTreeMap;

/// Finds or creates the session and the context.
pub(super) async fn conversation<'c, 'a>(
    client: &'c mut Client<'a>,
    args: Args,
) -> Result<Chat<'c, 'a>, CliError> {
    let session = match &args.session {
        Some(given) => client.resolve(Some(given)).await?,
        None => create(client).await?,
    };
    client.work_on(&session);
    if let Some(name) = &args.context {
        let contexts = rpc::list(client, &session).await?;
        let is_there = contexts.iter().any(|context| context.name == *name);
        match (is_there, &args.session) {
            (true, _) => {}
            (false, None) => {
                let context = CreateContext {
                    name: name.clone(),
                    ..CreateContext::default()
                };
                rpc::create(client, &session, context).await?;
            }
            (false, Some(_)) => {
                let make = command(client.context(), &format!("context new {session} {name}"));
                let message = format!("session {session} has no context {name}");
                return Err(CliError::usage(message).hint(format!("create it with: {make}")));
            }
        }
    }
    let context = client.context();
    let model = match context.config().client.server {
        Some(_) => args.model.unwrap_or_default(),
        None => context.config().default_model().to_owned(),
    };
    Ok(Chat {
        client,
        session,
        context: args.context.unwrap_or_default(),
        model,
    })
}

async fn create(client: &Client<'_>) -> Result<String, CliError> {
    let request = CreateSessionRequest {
        request_id: new_id("chat"),
        ..CreateSessionRequest::default()
    };
    // The same request_id each time, so that it is created once.
    let created = client.patiently(|mut orchestrator| {
        let request = request.clone();
        async move { orchestrator.create_session(request).await }
    });
    Ok(created.await?.session)
}

/// The lines above a conversation.
pub(super) fn header(chat: &Chat<'_, '_>) -> Vec<String> {
    let context = chat.client.context();
    let mut lines: Vec<String> = follow::workers(chat.client).into_iter().collect();
    let mut place = format!("session {}", chat.session);
    if !chat.context.is_empty() {
        place.push_str(&format!(" · context {}", chat.context));
    }
    if !chat.model.is_empty() {
        place.push_str(&format!(" · model {}", chat.model));
    }
    if !chat.client.attached().is_remote() {
        let workspace = context.config().workspace.path.display();
        place.push_str(&format!(" · workspace {workspace}"));
    }
    lines.push(place);
    lines.push(format!(
        "come back with: {} · /help lists the commands",
        chat.come_back()
    ));
    let lines = lines.iter();
    lines.map(|line| escape(line).into_owned()).collect()
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
