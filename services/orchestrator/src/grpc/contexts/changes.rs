//! Requests that change contexts, as commands.

use super::super::Answer;
use super::super::commands::{AnsweredRequest, command_request, contradiction, invalid, submitted};
use super::super::messages;
use super::super::start_run::check_agent;
use super::check_name;
use super::lines::{self, Imported};
use crate::requests::{Answer as Answered, Requests};
use cairn_engine::command::{
    BridgeContext, ChangeContext, ContextOp, CreateContext, DestroyContext, SetMode, SwitchAgent,
    SwitchContext, WhenFull,
};
use cairn_engine::event::EventKind;
use cairn_engine::limits::{
    MAX_CONTEXT_NAME, MAX_EXTENSION, MAX_MEMORY_KEY, MAX_MEMORY_VALUE, MAX_REMOVED,
    check_extension, is_context_name_char, is_memory_key,
};
use cairn_engine::message::{Message, Role};
use cairn_engine::session::Mode;
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{RpcError, check_required_text, check_text};
use std::collections::BTreeMap;
use std::sync::Arc;
use tonic::{Request, Response};

/// One row for each request that is a change of messages: the changes.
macro_rules! changes {
    ($($request:ident($asked:ident) -> $response:ident $ops:expr;)*) => {$(
        command_request!($request($asked) {
            let ops = $ops;
            change($asked.context, $asked.expected_version, ops)?
        });

        impl AnsweredRequest for pb::$request {
            type Response = pb::$response;

            fn response(answer: Answered) -> Option<Self::Response> {
                let (seq, version) = (answer.seq, version_of(&answer)?);
                Some(pb::$response { seq, version })
            }
        }
    )*};
}

changes! {
    AppendMessageRequest(asked) -> AppendMessageResponse
        vec![ContextOp::Append(message("message", asked.message)?)];
    ExtendMessagesRequest(asked) -> ExtendMessagesResponse {
        let messages = all_messages("messages", asked.messages)?;
        messages.into_iter().map(ContextOp::Append).collect()
    };
    UpdateMessageRequest(asked) -> UpdateMessageResponse {
        let message = message("message", asked.message)?;
        vec![ContextOp::Update { index: asked.index, message }]
    };
    InsertMessageRequest(asked) -> InsertMessageResponse {
        let message = message("message", asked.message)?;
        vec![ContextOp::Insert { index: asked.index, message }]
    };
    RemoveMessageRequest(asked) -> RemoveMessageResponse {
        let count = removed(asked.count)?;
        vec![ContextOp::Remove { index: asked.index }; count]
    };
    RetainMessagesRequest(asked) -> RetainMessagesResponse
        vec![ContextOp::Retain(role("role", asked.role)?)];
    ClearMessagesRequest(asked) -> ClearMessagesResponse
        vec![ContextOp::Clear];
    SetWindowRequest(asked) -> SetWindowResponse {
        let window = asked.window.map(|window| window.messages);
        check_window("window.messages", window)?;
        vec![ContextOp::SetWindow(window)]
    };
    UpdateContextRequest(asked) -> UpdateContextResponse {
        let mut ops = Vec::new();
        if let Some(change) = asked.window {
            let window = change.window.map(|window| window.messages);
            check_window("window.window.messages", window)?;
            ops.push(ContextOp::SetWindow(window));
        }
        if let Some(change) = asked.when_full {
            ops.push(ContextOp::SetWhenFull(when_full("when_full.when_full", change.when_full)?));
        }
        ops
    };
}

command_request!(PopMessageRequest(asked) {
    change(asked.context, asked.expected_version, vec![ContextOp::Pop])?
});

impl AnsweredRequest for pb::PopMessageRequest {
    type Response = pb::PopMessageResponse;

    fn response(answer: Answered) -> Option<Self::Response> {
        match answer.event {
            EventKind::ContextChanged(changed) => Some(pb::PopMessageResponse {
                seq: answer.seq,
                version: changed.version,
                message: changed.popped.map(Into::into),
            }),
            _ => None,
        }
    }
}

command_request!(ImportContextRequest(asked) {
    let imported = lines::read(&asked.jsonl, asked.preserve_reasoning)?;
    let ops = imported.messages.into_iter().map(ContextOp::Append).collect();
    change(asked.context, asked.expected_version, ops)?
});

/// Imports lines. What the answer counts follows from the request, so a retry has the same answer.
pub(super) async fn import(
    requests: &Arc<Requests>,
    request: Request<pb::ImportContextRequest>,
) -> Answer<pb::ImportContextResponse> {
    let asked = request.get_ref();
    let Imported {
        messages,
        dropped_parts,
    } = lines::read(&asked.jsonl, asked.preserve_reasoning)?;
    let (_, answer) = submitted(requests, request).await?;
    let version = version_of(&answer).ok_or_else(contradiction)?;
    Ok(Response::new(pb::ImportContextResponse {
        seq: answer.seq,
        version,
        messages: u32::try_from(messages.len()).unwrap_or(u32::MAX),
        dropped_parts,
    }))
}

command_request!(CreateContextRequest(asked) {
    let create = asked.context.ok_or_else(|| RpcError::missing("context"))?;
    let create = CreateContext::try_from(create).map_err(|error| invalid("context", &error))?;
    check_creation(&create)?;
    create
});
command_request!(SwitchContextRequest(asked) {
    check_required_text("context", &asked.context, MAX_CONTEXT_NAME)?;
    SwitchContext { context: asked.context }
});
command_request!(SwitchAgentRequest(asked) {
    check_name("context", &asked.context)?;
    check_agent("agent", &asked.agent)?;
    SwitchAgent { context: asked.context, agent: asked.agent }
});
command_request!(SetModeRequest(asked) {
    let mode = Mode::try_from(asked.mode()).map_err(|_| {
        RpcError::missing("mode").allowed("MODE_ASK, MODE_PLAN or MODE_ACCEPT_EDITS")
    })?;
    SetMode { mode }
});
command_request!(DestroyContextRequest(asked) {
    let destroy = asked.context.ok_or_else(|| RpcError::missing("context"))?;
    check_name("context.context", &destroy.context)?;
    check_pairs("context.conclusions", &destroy.conclusions)?;
    DestroyContext::from(destroy)
});
command_request!(BridgeContextRequest(asked) {
    let bridge = asked.bridge.ok_or_else(|| RpcError::missing("bridge"))?;
    check_name("bridge.from", &bridge.from)?;
    check_name("bridge.to", &bridge.to)?;
    check_pairs("bridge.values", &bridge.values)?;
    BridgeContext::from(bridge)
});

impl AnsweredRequest for pb::CreateContextRequest {
    type Response = pb::CreateContextResponse;

    fn response(answer: Answered) -> Option<Self::Response> {
        let is_it = matches!(answer.event, EventKind::ContextCreated(_));
        is_it.then_some(pb::CreateContextResponse { seq: answer.seq })
    }
}

impl AnsweredRequest for pb::SwitchContextRequest {
    type Response = pb::SwitchContextResponse;

    fn response(answer: Answered) -> Option<Self::Response> {
        let is_it = matches!(answer.event, EventKind::ContextSwitched(_));
        is_it.then_some(pb::SwitchContextResponse { seq: answer.seq })
    }
}

impl AnsweredRequest for pb::SwitchAgentRequest {
    type Response = pb::SwitchAgentResponse;

    fn response(answer: Answered) -> Option<Self::Response> {
        let is_it = matches!(answer.event, EventKind::AgentSwitched(_));
        is_it.then_some(pb::SwitchAgentResponse { seq: answer.seq })
    }
}

impl AnsweredRequest for pb::SetModeRequest {
    type Response = pb::SetModeResponse;

    fn response(answer: Answered) -> Option<Self::Response> {
        let is_it = matches!(answer.event, EventKind::ModeSet(_));
        is_it.then_some(pb::SetModeResponse { seq: answer.seq })
    }
}

impl AnsweredRequest for pb::DestroyContextRequest {
    type Response = pb::DestroyContextResponse;

    fn response(answer: Answered) -> Option<Self::Response> {
        let run = match answer.event {
            EventKind::ContextDestroyed(_) => 0,
            // The model concludes first.
            EventKind::RunStarted(started) => started.run,
            _ => return None,
        };
        let seq = answer.seq;
        Some(pb::DestroyContextResponse { seq, run })
    }
}

impl AnsweredRequest for pb::BridgeContextRequest {
    type Response = pb::BridgeContextResponse;

    fn response(answer: Answered) -> Option<Self::Response> {
        let (seq, version) = (answer.seq, version_of(&answer)?);
        Some(pb::BridgeContextResponse { seq, version })
    }
}

fn change(
    context: String,
    expected_version: Option<u64>,
    ops: Vec<ContextOp>,
) -> Result<ChangeContext, RpcError> {
    check_name("context", &context)?;
    Ok(ChangeContext {
        context,
        expected_version,
        ops,
    })
}

fn version_of(answer: &Answered) -> Option<u64> {
    match &answer.event {
        EventKind::ContextChanged(changed) => Some(changed.version),
        _ => None,
    }
}

/// Refused here, so that no command that is too large is stored.
fn check_size(bytes: u64) -> Result<(), RpcError> {
    check_extension(bytes).map_err(|message| RpcError::precondition(message).reason("LIMIT"))
}

fn message(field: &str, message: Option<wire::Message>) -> Result<Message, RpcError> {
    let message = messages::message(field, message)?;
    check_size(message.bytes())?;
    Ok(message)
}

fn all_messages(field: &str, sent: Vec<wire::Message>) -> Result<Vec<Message>, RpcError> {
    let mut messages = Vec::with_capacity(sent.len());
    let mut bytes = 0;
    for (i, sent) in sent.into_iter().enumerate() {
        let message = message(&format!("{field}[{i}]"), Some(sent))?;
        bytes += message.bytes();
        messages.push(message);
    }
    check_size(bytes)?;
    Ok(messages)
}

pub(super) fn role(field: &str, role: i32) -> Result<Role, RpcError> {
    match wire::Role::try_from(role) {
        Ok(wire::Role::System) => Ok(Role::System),
        Ok(wire::Role::User) => Ok(Role::User),
        Ok(wire::Role::Assistant) => Ok(Role::Assistant),
        Ok(wire::Role::Tool) => Ok(Role::Tool),
        Ok(wire::Role::Unspecified) => Err(RpcError::missing(field)),
        Err(_) => Err(RpcError::invalid(field, format!("is {role}")).allowed("1 to 4")),
    }
}

fn when_full(field: &str, when_full: i32) -> Result<Option<WhenFull>, RpcError> {
    match wire::WhenFull::try_from(when_full) {
        Ok(wire::WhenFull::Unspecified) => Ok(None),
        Ok(wire::WhenFull::Refuse) => Ok(Some(WhenFull::Refuse)),
        Ok(wire::WhenFull::Compact) => Ok(Some(WhenFull::Compact)),
        Err(_) => Err(RpcError::invalid(field, format!("is {when_full}")).allowed("0 to 2")),
    }
}

fn check_creation(create: &CreateContext) -> Result<(), RpcError> {
    let field = "context.name";
    check_required_text(field, &create.name, MAX_CONTEXT_NAME)?;
    if !create.name.chars().all(is_context_name_char) {
        let error = RpcError::invalid(field, "has other characters than a name");
        return Err(error.allowed("a-z, A-Z, 0-9, '.', '_' and '-'"));
    }
    let longest = usize::try_from(MAX_EXTENSION).unwrap_or(usize::MAX);
    check_text("context.system_prompt", &create.prompt, longest)?;
    check_window("context.window.messages", create.window)?;
    check_agent("context.agent", &create.agent)?;
    let immutable = create.immutable.iter();
    for (i, message) in immutable.clone().enumerate() {
        messages::check(&format!("context.immutable[{i}]"), message)?;
    }
    check_size(create.prompt.len() as u64 + immutable.map(Message::bytes).sum::<u64>())
}

/// How many messages go.
fn removed(count: u32) -> Result<usize, RpcError> {
    let count = usize::try_from(count.max(1)).unwrap_or(usize::MAX);
    match count <= MAX_REMOVED {
        true => Ok(count),
        false => {
            let error = RpcError::invalid("count", format!("is {count}"));
            Err(error.allowed(format!("at most {MAX_REMOVED}, and 0 for 1")))
        }
    }
}

fn check_window(field: &str, window: Option<u32>) -> Result<(), RpcError> {
    match window {
        Some(0) => Err(RpcError::invalid(field, "is 0").allowed("1 and more, or no window")),
        _ => Ok(()),
    }
}

fn check_pairs(field: &str, pairs: &BTreeMap<String, String>) -> Result<(), RpcError> {
    for (key, value) in pairs {
        if !is_memory_key(key) {
            let error = RpcError::invalid(field, format!("has a key of {} bytes", key.len()));
            return Err(error.allowed(format!(
                "keys of 1 to {MAX_MEMORY_KEY} bytes without control characters"
            )));
        }
        if value.len() > MAX_MEMORY_VALUE {
            let error = RpcError::invalid(field, format!("has a value of {} bytes", value.len()));
            return Err(error.allowed(format!("values of at most {MAX_MEMORY_VALUE} bytes")));
        }
    }
    Ok(())
}
