//! What is traced of an attempt. Names and attributes are those of OpenTelemetry's conventions for
//! generative AI; Cairn's own are under `cairn.`.

use crate::error::Stop;
use cairn_engine::event::CallRef;
use cairn_proto::executor::AttemptStart;
use cairn_rpc::TraceParent;
use cairn_rpc::trace::TARGET;
use tracing::Span;
use tracing::field::Empty;

/// One attempt at a step, under the run that it belongs to.
pub(crate) fn attempt(caller: Option<TraceParent>, start: &AttemptStart) -> Span {
    let at = start.attempt.unwrap_or_default();
    let continued = start.tool_turns > 0 || !start.open_calls.is_empty();
    let agent = match start.agent.as_str() {
        "" => "cairn",
        agent => agent,
    };
    let span = tracing::info_span!(
        target: TARGET,
        "invoke_agent",
        otel.name = format!("invoke_agent {agent}"),
        otel.kind = "internal",
        otel.status_code = Empty,
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = agent,
        gen_ai.conversation.id = start.session,
        cairn.run = at.run,
        cairn.step = at.step,
        cairn.attempt = at.attempt,
        cairn.continued = continued,
        error.type = Empty,
    );
    if let Some(caller) = caller {
        caller.adopt(&span);
        if continued {
            caller.link_on(&span);
        }
    }
    span
}

/// How the attempt ended over this stream.
pub(crate) fn ended(span: &Span, outcome: &Result<(), Stop>) {
    match outcome {
        Ok(()) | Err(Stop::Ended) => {}
        Err(Stop::Gone) => failed(span, "OWNER_GONE"),
        Err(Stop::Broken(error)) => failed(span, error.reason_name()),
    }
}

/// The hook point PreToolCall of a call that this process carries out. The tools service traces all others.
pub(crate) fn before_call(at: CallRef) {
    let (tool_turn, index) = (at.tool_turn, at.index);
    tracing::info!(target: TARGET, { cairn.tool_turn = tool_turn, cairn.call.index = index }, "PreToolCall");
}

/// The hook point PostToolCall of such a call.
pub(crate) fn after_call(at: CallRef) {
    let (tool_turn, index) = (at.tool_turn, at.index);
    tracing::info!(target: TARGET, { cairn.tool_turn = tool_turn, cairn.call.index = index }, "PostToolCall");
}

/// The attempt cannot go on.
pub(crate) fn error(reason: &str) {
    failed(&Span::current(), reason);
}

fn failed(span: &Span, reason: &str) {
    span.record("error.type", reason);
    span.record("otel.status_code", "ERROR");
}

#[cfg(test)]
mod tests {
    /// The library of models stands above that of calls and cannot name its constant.
    #[test]
    fn questions_are_traced_under_the_one_target() {
        assert_eq!(cairn_model::traced::TARGET, cairn_rpc::trace::TARGET);
    }
}
