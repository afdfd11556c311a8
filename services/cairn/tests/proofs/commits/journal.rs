//! Journals of sessions with ended turns and one context beside, as an archive has them.

use cairn_engine::command::{
    ChangeContext, Command, ContextOp, CreateContext, RunLimits, SubmitTurn,
};
use cairn_engine::decide::{Compaction, Facts, Input, Reply, ToolList};
use cairn_engine::event::{AttemptRef, CommandReceived, Event};
use cairn_engine::hooks::PresentHooks;
use cairn_engine::message::{FinishReason, Message, Usage};
use cairn_engine::rules::Rules;
use cairn_engine::session::Session;
use cairn_proto::convert::encode_event;
use cairn_proto::orchestrator as pb;
use std::collections::BTreeMap;

/// The context whose next turn is measured. The ended turns are those of `main`.
pub(super) const CONTEXT: &str = "measured";
const NOW: u64 = 1_700_000_000_000;
/// Bytes of the text of a message of the context.
const TEXT: usize = 1024;
/// Messages that are added at once: their event fits into the journal.
const AT_ONCE: usize = 40;
/// Bytes of events in one message of an import.
const MESSAGE_BYTES: usize = 256 << 10;

/// The events of a session in which so many turns have ended, and whose context has about so many bytes.
pub(super) fn journal(turns: usize, bytes: u64) -> Vec<pb::ArchivedEvent> {
    let mut author = Author::default();
    author.decide(Input::Create {
        title: "commits".to_owned(),
        time_to_live_ms: 0,
        principal: None,
        command: None,
    });
    for _ in 0..turns {
        author.turn();
    }
    author.context(bytes);
    let session = &author.session;
    let made = session.context(CONTEXT).expect("the context").bytes;
    assert_eq!(session.runs.len(), turns);
    assert!(made.abs_diff(bytes) < bytes / 8, "{made} bytes");
    author.events
}

/// The requests of an import of these events.
pub(super) fn messages(
    session: &str,
    events: Vec<pb::ArchivedEvent>,
) -> Vec<pb::ImportSessionRequest> {
    let mut start = Some(pb::ImportStart {
        session: session.to_owned(),
        request_id: format!("import-{session}"),
        last_seq: events.len() as u64,
        ..pb::ImportStart::default()
    });
    let (mut messages, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
    let last = events.len() - 1;
    for (event, at) in events.into_iter().zip(0..) {
        bytes += event.event.len();
        batch.push(event);
        if bytes >= MESSAGE_BYTES || at == last {
            bytes = 0;
            messages.push(pb::ImportSessionRequest {
                start: start.take(),
                events: std::mem::take(&mut batch),
                blobs: Vec::new(),
            });
        }
    }
    messages
}

#[derive(Default)]
struct Author {
    session: Session,
    events: Vec<pb::ArchivedEvent>,
}

impl Author {
    fn turn(&mut self) {
        self.command(SubmitTurn {
            message: Some(Message::user("Is anything new?")),
            ..SubmitTurn::default()
        });
        let attempt = AttemptRef {
            run: u32::try_from(self.session.runs.len()).expect("a number"),
            step: 1.into(),
            attempt: 1,
        };
        let running = self.session.attempt(attempt).expect("a turn");
        let reply = Reply {
            tool_turn: 0,
            text: "Nothing is new.".to_owned(),
            calls: Vec::new(),
            opaque: Vec::new(),
            finish: FinishReason::Stop,
            usage: Usage {
                input_tokens: 1_000,
                output_tokens: 20,
                cost_nano_usd: 5_000,
                model_calls: 1,
                ..Usage::default()
            },
            provider: "played".to_owned(),
            model: "played-1".to_owned(),
            duration_ms: 700,
            ops_through: running.newest_op(),
            estimated_tokens: 0,
            window_tokens: 0,
        };
        self.decide(Input::Report {
            attempt,
            results: Vec::new(),
            unfinished: Vec::new(),
            reply: Some(reply),
            failure: None,
            full: None,
            summary: None,
            retry: None,
        });
    }

    fn context(&mut self, bytes: u64) {
        self.command(CreateContext {
            name: CONTEXT.to_owned(),
            ..CreateContext::default()
        });
        let message = Message::user("x".repeat(TEXT));
        let mut left = usize::try_from(bytes / message.bytes()).expect("a number");
        let append = ContextOp::Append(message);
        while left > 0 {
            let count = left.min(AT_ONCE);
            left -= count;
            self.command(ChangeContext {
                context: CONTEXT.to_owned(),
                ops: vec![append.clone(); count],
                ..ChangeContext::default()
            });
        }
    }

    fn command(&mut self, command: impl Into<Command>) {
        let received = CommandReceived {
            request_id: format!("request-{}", self.session.seq),
            command: command.into(),
        };
        let event = Event {
            at: NOW,
            answers: 0,
            principal: None,
            kind: received.into(),
        };
        let seq = self.session.seq + 1;
        self.session.apply(seq, &event).expect("it fits");
        self.keep(&[event]);
        self.decide(Input::HandleCommand);
    }

    fn decide(&mut self, input: Input) {
        let facts = Facts {
            now: NOW,
            not_after: NOW,
            tools: &ToolList::new(),
            away: &[],
            offered: &BTreeMap::new(),
            rules: Rules::none(),
            agents: cairn_engine::decide::Agents::none(),
            prompts: cairn_engine::decide::Prompts::built_in(),
            environment: "",
            limits: RunLimits::default(),
            result_bytes: cairn_engine::limits::RESULT_BYTES,
            compaction: Compaction::default(),
            journal_permille: 0,
            responses: |_, _| Ok(String::new()),
            pool: cairn_engine::pool::PoolFacts::none(),
            hooks: &PresentHooks::default(),
            starts: true,
            starts_queued: true,
        };
        let events = self.session.decide(input, &facts).expect("it is legal");
        self.keep(&events);
    }

    /// A transition.
    fn keep(&mut self, events: &[Event]) {
        let archived = events
            .iter()
            .zip(1..)
            .map(|(event, count)| pb::ArchivedEvent {
                event: encode_event(event, 1).into(),
                ends: count == events.len(),
                ..pb::ArchivedEvent::default()
            });
        self.events.extend(archived);
    }
}
