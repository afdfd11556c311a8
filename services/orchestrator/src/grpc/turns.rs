//! Turns of conversations: submitted, streamed, steered.

use super::bounded::respond;
use super::commands::{command_request, invalid, submitted};
use super::start_run::{MAX_MODEL_NAME, named_trace};
use super::turn_events::TurnEvents;
use super::{Answer, key_of, messages, streams};
use crate::key::{SessionKey, derived_trace};
use crate::requests::{Requests, admit, submit_if};
use cairn_engine::command::{ResponseFormat, SendMessage, SubmitTurn};
use cairn_engine::event::EventKind;
use cairn_engine::limits::{MAX_EXTENSION, MAX_GOAL};
use cairn_engine::message::{Message, Role};
use cairn_proto::orchestrator as pb;
use cairn_rpc::{RpcError, TraceParent, check_request_id, check_text, principal};
use futures::stream::{self, BoxStream, StreamExt as _};
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// Most tools that a turn names.
const MAX_TOOLS: usize = 1_000;
const MAX_TOOL_NAME: usize = 64;
/// Most bytes of a schema that replies have.
const MAX_SCHEMA: usize = 64 * 1024;
/// Most bytes of a message to a running turn or step.
const MAX_STEERING: u64 = MAX_GOAL as u64;

pub(super) type Turns = BoxStream<'static, Result<pb::SubmitTurnResponse, Status>>;

/// Submits a turn, and streams it from its answer on.
pub(super) async fn submit(
    requests: &Arc<Requests>,
    request: Request<pb::SubmitTurnRequest>,
) -> Answer<Turns> {
    let principal = principal(&request)?.clone();
    let key = key_of(&request, &request.get_ref().session)?;
    let callers_trace = TraceParent::of(&request);
    let asked = request.into_inner();
    check_request_id("request_id", &asked.request_id)?;
    let turn = asked.turn.ok_or_else(|| RpcError::missing("turn"))?;
    let mut turn = SubmitTurn::try_from(turn).map_err(|error| invalid("turn", &error))?;
    check(&turn)?;
    let trace = named_trace("turn.trace_parent", &turn.trace_parent)?.or(callers_trace);
    let own = || derived_trace(principal.namespace(), &asked.session, &asked.request_id);
    turn.trace_parent = trace.unwrap_or_else(own).to_string();
    // Watched from before its start, because the first part of a reply is stored nowhere.
    let head = requests.store().last_seq(&key).await?;
    if asked.after_seq > head {
        streams::check_cursor(requests, &key, asked.after_seq).await?;
    }
    let share = requests.readers.share();
    let watch = |after| streams::watch(requests.clone(), key.clone(), after, true, share.clone());
    let watched = watch(head).await?;
    let admission = admit(requests, Some(&key)).await;
    let (id, turn) = (&asked.request_id, turn.into());
    let answer = submit_if(admission, requests, &principal, &key, id, turn).await?;
    let is_repeat = answer.seq <= head;
    let watched = match is_repeat {
        true => watch(answer.seq.saturating_sub(1)).await?,
        false => watched,
    };
    let events = TurnEvents::new(answer.seq, asked.after_seq);
    let turn = turn_stream(requests.clone(), key, watched, events);
    Ok(respond(share, turn, asked.after_seq, |it| it.seq))
}

/// What a turn is to its client, until its end.
fn turn_stream(
    requests: Arc<Requests>,
    key: SessionKey,
    watched: streams::Watched,
    events: TurnEvents,
) -> Turns {
    let state = Some((watched, events));
    let messages = stream::unfold(state, move |state| {
        let (requests, key) = (requests.clone(), key.clone());
        async move {
            let (watched, events) = state?;
            next_response(&requests, &key, watched, events).await
        }
    });
    messages.boxed()
}

type TurnState = Option<(streams::Watched, TurnEvents)>;

/// The next response, and what the one after it comes from.
async fn next_response(
    requests: &Requests,
    key: &SessionKey,
    mut watched: streams::Watched,
    mut events: TurnEvents,
) -> Option<(Result<pb::SubmitTurnResponse, Status>, TurnState)> {
    loop {
        let message = match watched.next().await {
            Some(Ok(message)) => message,
            Some(Err(status)) => return Some((Err(status), None)),
            None => return Some((Err(broken_off(requests, key).await.into()), None)),
        };
        let (response, is_over) = events.take(message);
        match response {
            Some(response) => {
                let rest = (!is_over).then_some((watched, events));
                return Some((Ok(response), rest));
            }
            None if is_over => return None,
            None => {}
        }
    }
}

/// Why the events of a session end before the turn does: the session is deleted, in general.
async fn broken_off(requests: &Requests, key: &SessionKey) -> RpcError {
    let message = "the events of the session ended before the turn; repeat the request";
    match requests.store().last_seq(key).await {
        Err(error) => error,
        Ok(_) => RpcError::unavailable(message),
    }
}

fn check(turn: &SubmitTurn) -> Result<(), RpcError> {
    check_text("turn.context", &turn.context, MAX_TOOL_NAME)?;
    check_text("turn.model", &turn.model, MAX_MODEL_NAME)?;
    if let Some(message) = &turn.message {
        messages::check("turn.message", message)?;
        check_bytes("turn.message", message, MAX_EXTENSION)?;
        check_is_users("turn.message", message)?;
    }
    let tools = turn.options.tools.iter().flatten();
    for (i, tool) in tools.enumerate() {
        if i == MAX_TOOLS {
            let error = RpcError::invalid("turn.options.tools.names", "has too many names");
            return Err(error.allowed(format!("at most {MAX_TOOLS}")));
        }
        check_text(
            &format!("turn.options.tools.names[{i}]"),
            tool,
            MAX_TOOL_NAME,
        )?;
    }
    if turn.options.max_tool_turns.is_some_and(|most| most > 1_000) {
        let error = RpcError::invalid("turn.options.max_tool_turns", "is too large");
        return Err(error.allowed("0 to 1000"));
    }
    if turn.options.max_turns.is_some_and(|most| most > 100_000) {
        let error = RpcError::invalid("turn.options.max_turns", "is too large");
        return Err(error.allowed("0 (the default) to 100000"));
    }
    if turn.options.max_output_tokens == Some(0) {
        let error = RpcError::invalid("turn.options.max_output_tokens", "is 0");
        return Err(error.allowed("1 and more, or not set"));
    }
    match &turn.options.format {
        ResponseFormat::Text | ResponseFormat::JsonObject => Ok(()),
        ResponseFormat::JsonSchema { name, schema } => check_schema(name, schema),
    }
}

fn check_is_users(field: &str, message: &Message) -> Result<(), RpcError> {
    match message.role {
        Role::User => Ok(()),
        _ => {
            let error = RpcError::invalid(format!("{field}.role"), "is not the user's");
            Err(error.allowed("ROLE_USER"))
        }
    }
}

fn check_bytes(field: &str, message: &Message, most: u64) -> Result<(), RpcError> {
    match message.bytes() {
        bytes if bytes > most => {
            let error = RpcError::invalid(field, format!("has {bytes} bytes"));
            Err(error.allowed(format!("at most {most}")))
        }
        _ => Ok(()),
    }
}

fn check_schema(name: &str, schema: &str) -> Result<(), RpcError> {
    let field = "turn.options.response_format.json_schema";
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || name.len() > MAX_TOOL_NAME || !name.chars().all(is_allowed) {
        let error = RpcError::invalid(format!("{field}.name"), "is not a name");
        return Err(error.allowed("1 to 64 characters of a-z, A-Z, 0-9, - and _"));
    }
    let field = format!("{field}.schema_json");
    check_text(&field, schema, MAX_SCHEMA)?;
    match serde_json::from_str::<serde_json::Value>(schema) {
        Ok(serde_json::Value::Object(_)) => Ok(()),
        Ok(_) => Err(RpcError::invalid(field, "is no JSON object")),
        Err(error) => Err(RpcError::invalid(field, format!("is no JSON: {error}"))),
    }
}

command_request!(SendMessageRequest(asked) {
    let message = messages::message("message", asked.message)?;
    check_bytes("message", &message, MAX_STEERING)?;
    check_is_users("message", &message)?;
    SendMessage {
        step: Some(asked.step).filter(|step| *step > 0).map(Into::into),
        message,
    }
});

pub(super) async fn send_message(
    requests: &Arc<Requests>,
    request: Request<pb::SendMessageRequest>,
) -> Answer<pb::SendMessageResponse> {
    let (_, answer) = submitted(requests, request).await?;
    match answer.event {
        EventKind::ContextChanged(_) => {
            Ok(Response::new(pb::SendMessageResponse { seq: answer.seq }))
        }
        _ => Err(super::commands::contradiction().into()),
    }
}
