//! Interrupts the calls of a run that a person cancels.
//!
//! Such a run ends at once, and what its calls bring is not awaited. Without an interrupt a program would work on
//! until it ends by itself.

use super::Owner;
use crate::dispatch::Dispatcher;
use crate::key::SessionKey;
use crate::store::for_session;
use cairn_engine::command::{Command, WhenBusy};
use cairn_engine::event::{Effect, Event, EventKind};
use cairn_engine::session::{Call, CallStatus, Run};
use cairn_proto::tools::CancelCallRequest;
use cairn_proto::tools::tools_service_client::ToolsServiceClient;
use cairn_rpc::{Link, RpcError};
use futures::future::join_all;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How long a process of the tools service may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

impl Owner {
    /// Notes the calls that may be under way, if a command that waits may cancel their run. The state forgets the
    /// calls with the run.
    pub(super) fn note_calls(&mut self) {
        let mut waiting = self.session.commands.values();
        if !waiting.any(|received| may_cancel(&received.command)) {
            return;
        }
        let (namespace, id) = (self.key.namespace.as_str(), &self.key.id);
        let run = self.session.active_run().into_iter();
        let attempts = run.flat_map(Run::running_attempts);
        let calls = attempts.flat_map(|(name, _, attempt)| attempt.last_calls(name));
        let under_way = calls.filter(|(_, call)| may_be_under_way(call));
        let keys = under_way.map(|(name, _)| self.session.call_key(namespace, id, name));
        let keys: Vec<String> = keys.collect();
        self.calls_under_way.extend(keys);
    }

    /// A transition is durable. If it cancelled a run, the tools service is asked once to interrupt the calls that
    /// were noted. What it answers changes nothing: the calls are in doubt already.
    pub(super) fn interrupt_calls(&mut self, is_cancelled: bool) {
        let calls = std::mem::take(&mut self.calls_under_way);
        if is_cancelled && !calls.is_empty() {
            let (dispatch, key) = (self.deps.dispatch.clone(), self.key.clone());
            // The owner may let go of the session before the answers come.
            tokio::spawn(interrupt(dispatch, key, calls));
        }
    }
}

/// One of these events cancels a run.
pub(super) fn cancels_a_run(events: &[Event]) -> bool {
    let cancels = |event: &Event| matches!(event.kind, EventKind::RunCancelled(_));
    events.iter().any(cancels)
}

fn may_cancel(command: &Command) -> bool {
    match command {
        Command::CancelRun(_) => true,
        Command::SubmitTurn(turn) => turn.when_busy == WhenBusy::Interrupt,
        _ => false,
    }
}

/// Calls without side effects are sent without an intent.
fn may_be_under_way(call: &Call) -> bool {
    matches!(
        (&call.status, call.effect),
        (CallStatus::Requested, Effect::Pure | Effect::Idempotent)
            | (CallStatus::Intended { .. } | CallStatus::InDoubt { .. }, _)
    )
}

/// Asks each process of the tools service, because only the one that carries a call out can interrupt it.
async fn interrupt(dispatch: Arc<Dispatcher>, key: SessionKey, calls: BTreeSet<String>) {
    let members = dispatch.each_tools().await;
    let mut asked = Vec::new();
    for call_key in calls {
        for tools in &members {
            asked.push(ask(tools.clone(), key.clone(), call_key.clone()));
        }
    }
    join_all(asked).await;
}

async fn ask(mut tools: ToolsServiceClient<Link>, key: SessionKey, call_key: String) {
    let mut request = for_session(&key, CancelCallRequest { call_key });
    request.set_timeout(ANSWER);
    if let Err(status) = tools.cancel_call(request).await {
        let error = RpcError::from_status(&status);
        tracing::warn!(session = %key, %error, "a call of a cancelled run cannot be interrupted");
    }
}
