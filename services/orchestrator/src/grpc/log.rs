//! The execution log, page by page.

use super::present::ms;
use super::{Answer, key_of};
use crate::requests::Requests;
use crate::store::unreadable;
use cairn_engine::command::Command;
use cairn_engine::conversation::{CompactionKind, ConversationRef};
use cairn_engine::event::{self, CallRef, Event, EventKind};
use cairn_engine::session::{Call, CallStatus, PastDecision, Session};
use cairn_proto::orchestrator as pb;
use cairn_views::decisions;
use cairn_views::hooked::{Replaced, replaced};
use tonic::{Request, Response};

/// Entries of one answer, unless fewer are asked for.
const PAGE: u32 = 1000;

/// An answer ends with the entry that makes its texts this long, so that it fits into a message.
const PAGE_BYTES: usize = 1024 * 1024;

/// Reads a page. The fold of the events before it comes from the nearest checkpoint: a page costs
/// what it shows, and not what the journal holds.
pub(super) async fn page(
    requests: &Requests,
    request: Request<pb::GetExecutionLogRequest>,
) -> Answer<pb::GetExecutionLogResponse> {
    let key = key_of(&request, &request.get_ref().session)?;
    let asked = request.into_inner();
    let most = match asked.max_entries {
        0 => PAGE,
        asked => asked,
    };
    let mut session = match asked.after_seq {
        0 => Session::default(),
        seq => requests.store().view_at(&key, seq).await?,
    };
    let mut answer = pb::GetExecutionLogResponse::default();
    let mut bytes = 0;
    loop {
        let page = requests.store().read(&key, session.seq).await?;
        for stored in &page.events {
            let event = requests.store().event(&key, stored).await?;
            if let Some(entry) = entry_of(&session, stored.seq, &event) {
                if answer.entries.len() >= most as usize || bytes >= PAGE_BYTES {
                    answer.next_after_seq = answer.entries.last().map_or(0, |last| last.seq);
                    return Ok(Response::new(answer));
                }
                bytes += entry.input.len() + entry.output.len();
                answer.entries.push(entry);
            }
            let folded = session.apply(stored.seq, &event);
            folded.map_err(|error| unreadable(&key, stored.seq, error))?;
        }
        if session.seq >= page.last_seq {
            return Ok(Response::new(answer));
        }
    }
}

/// What a client is shown of an event: texts of the model, calls once they are over or in doubt, and what
/// people say and decide. `before` is the state that the event found.
fn entry_of(before: &Session, seq: u64, event: &Event) -> Option<pb::LogEntry> {
    let mut entry = match &event.kind {
        EventKind::ReplyReceived(reply) if !reply.text.is_empty() => pb::LogEntry {
            run: reply.attempt.run,
            step: reply.attempt.step.into(),
            output: reply.text.clone(),
            duration_ms: reply.duration_ms,
            ..pb::LogEntry::default()
        },
        EventKind::ContextCompacted(compacted) if compacted.kind == CompactionKind::Summary => {
            pb::LogEntry {
                run: compacted.attempt.run,
                step: compacted.attempt.step.into(),
                output: compacted.text.clone(),
                duration_ms: compacted.duration_ms,
                ..pb::LogEntry::default()
            }
        }
        EventKind::CallFinished(finished) => pb::LogEntry {
            output: finished.output.clone(),
            is_error: finished.is_error,
            duration_ms: finished.duration_ms,
            whole: finished.whole.as_deref().cloned().map(Into::into),
            ..of_call(before, finished.call)
        },
        EventKind::CallInDoubt(event::CallInDoubt { call, .. }) => pb::LogEntry {
            output: "in doubt: it had begun, and nobody knows how it ended".to_owned(),
            is_error: true,
            ..of_call(before, *call)
        },
        EventKind::HooksAnswered(answered) => of_hooks(before, answered)?,
        // Unless the call is sent again, a person's word is its result.
        EventKind::CallSettled(settled) => {
            let (output, is_error) = settled.settlement.result(&settled.output)?;
            pb::LogEntry {
                output: output.to_owned(),
                is_error,
                ..of_call(before, settled.call)
            }
        }
        _ => match said(before, event) {
            Some(said) => said,
            None => of_decision(event)?,
        },
    };
    entry.seq = seq;
    entry.at_unix_ms = ms(event.at);
    Some(entry)
}

/// What hooks put in place of a reply or a result, which the entry before has as it came.
fn of_hooks(before: &Session, answered: &event::HooksAnswered) -> Option<pb::LogEntry> {
    match replaced(answered)? {
        Replaced::Reply { attempt, text, .. } => Some(pb::LogEntry {
            run: attempt.run,
            step: attempt.step.into(),
            output: text.to_owned(),
            ..pb::LogEntry::default()
        }),
        Replaced::Result { call, result } => {
            let known = before.call(call).map(|call| &call.status);
            let was_error = matches!(known, Some(CallStatus::Finished { is_error: true, .. }));
            Some(pb::LogEntry {
                output: result.output.into_owned(),
                is_error: result.is_blocked || was_error,
                ..of_call(before, call)
            })
        }
    }
}

fn of_decision(event: &Event) -> Option<pb::LogEntry> {
    let decision = PastDecision::of(event)?;
    Some(pb::LogEntry {
        run: decision.run,
        step: decision.step.into(),
        decision: decisions::words(&decision.kind),
        principal: Some(decision.principal.into()),
        ..pb::LogEntry::default()
    })
}

/// What a person says with a turn that begins, or to a running turn or step.
fn said(before: &Session, event: &Event) -> Option<pb::LogEntry> {
    let (run, step, message) = match &event.kind {
        EventKind::RunStarted(started) => {
            let turn = before.submitted(started.turn.as_ref()?, event.answers)?;
            (started.run, 0, turn.message.as_ref()?)
        }
        EventKind::ContextChanged(changed) => {
            let command = &before.commands.get(&event.answers)?.command;
            match (&changed.conversation, command) {
                (ConversationRef::Attempt(attempt), Command::SendMessage(sent)) => {
                    (attempt.run, attempt.step.into(), &sent.message)
                }
                _ => return None,
            }
        }
        _ => return None,
    };
    let input = message.said();
    (!input.is_empty()).then(|| pb::LogEntry {
        run,
        step,
        input,
        principal: event.principal.clone().map(Into::into),
        ..pb::LogEntry::default()
    })
}

fn of_call(before: &Session, name: CallRef) -> pb::LogEntry {
    let call = before.call(name).map(Call::as_sent);
    let (tool, input) = call.map_or_else(Default::default, |call| (call.name, call.arguments));
    pb::LogEntry {
        run: name.attempt.run,
        step: name.attempt.step.into(),
        tool,
        input,
        ..pb::LogEntry::default()
    }
}
