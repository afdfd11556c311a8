//! A turn as its client sees it: a pure fold of the session's events and of the parts of replies.

mod compactions;
mod held;

use self::compactions::Compactions;
use self::held::{Held, Released};
use cairn_engine::command::Settlement;
use cairn_engine::message::Usage;
use cairn_proto::event::event::Kind;
use cairn_proto::event::{
    AttemptRef, CallFinished, CallProgress, CallSettled, Failure, FinishReason, HooksAnswered,
    OpenCall, ReplyReceived, RunStarted, TextDelta, ToolCall, ToolResult,
};
use cairn_proto::orchestrator as pb;
use pb::turn_event::Event;

/// Most parts that wait for their events.
const MOST_AHEAD: usize = 64;

/// What is known of the turn.
#[derive(Debug, Default)]
pub(super) struct TurnEvents {
    /// The event that answers the turn's command; those before it are others'.
    first_seq: u64,
    /// Events up to this one were sent to the client before.
    after_seq: u64,
    /// The last event that was taken.
    seq: u64,
    /// The number of the turn, if it was queued.
    queued: Option<u64>,
    /// Its run, once it has begun.
    run: u32,
    turn_index: u32,
    usage: Usage,
    compactions: Compactions,
    /// The reply that is being written: its number, and what was sent of it.
    writing: (u32, String),
    /// The try that the text is of.
    retry: u32,
    /// Parts of replies that came before the events that precede them, or before those that the client has:
    /// parts and events come by different ways.
    ahead: Vec<TextDelta>,
    /// The client may have parts of the reply that is being written, from a stream that broke.
    is_resumed: bool,
    /// The last reply.
    finish: i32,
    response: String,
    calls: Vec<ToolCall>,
    /// What hooks are asked about: nothing of it is sent before they have answered.
    held: Held,
}

impl TurnEvents {
    /// For a turn that begins with an event, and a client that has all up to another one; 0 for a client
    /// that has nothing.
    pub(super) fn new(first_seq: u64, after_seq: u64) -> Self {
        Self {
            first_seq,
            after_seq,
            seq: first_seq.saturating_sub(1),
            is_resumed: after_seq > 0,
            ..Self::default()
        }
    }

    /// What the client is sent, and whether the turn is over.
    pub(super) fn take(
        &mut self,
        message: pb::WatchSessionResponse,
    ) -> (Option<pb::SubmitTurnResponse>, bool) {
        let (mut seq, mut events) = (message.seq, Vec::new());
        if seq > 0 && seq < self.first_seq {
            return (None, false);
        }
        self.seq = self.seq.max(seq);
        let (is_event, reply) = (message.event.is_some(), self.writing.0);
        match message.delta {
            Some(TextDelta {
                progress: Some(progress),
                ..
            }) => {
                events.extend(self.progress(progress));
            }
            Some(delta) => self.take_text(delta, &mut events),
            None => {}
        }
        if let Some(kind) = message.event.and_then(|event| event.kind) {
            self.take_event(kind, &mut events);
        }
        let is_over = events.iter().any(is_end);
        if seq > 0 && self.client_has_last() {
            // The stream ends with the end of the turn, also for a client that may know it.
            events.retain(|event| is_over && is_end(event));
            if !is_over {
                // What follows is text.
                seq = 0;
            }
        }
        if is_event && !is_over {
            self.take_ahead(&mut events);
        }
        // A reply moves the cursor also if its text was sent in parts: parts of the next one may follow, and
        // a stream that is continued before this reply would not reset them.
        let is_reply = self.writing.0 != reply;
        if events.is_empty() && (seq == 0 || !is_reply) {
            return (None, is_over);
        }
        let events = events
            .into_iter()
            .map(|event| pb::TurnEvent { event: Some(event) });
        let response = pb::SubmitTurnResponse {
            seq,
            events: events.collect(),
        };
        (Some(response), is_over)
    }

    /// The client has the event that was taken last.
    fn client_has_last(&self) -> bool {
        self.seq <= self.after_seq
    }

    /// Of a call that the client knows; progress of others is lost.
    fn progress(&self, progress: CallProgress) -> Option<Event> {
        let call = progress.call?;
        let is_of_turn = self.run > 0 && call.attempt.is_some_and(|at| at.run == self.run);
        // The calls that are known are those of the reply before the one that is being written.
        let is_known =
            self.writing.0 == call.tool_turn + 1 && self.calls.get(call.index as usize).is_some();
        (is_of_turn && is_known).then_some(Event::ToolProgress(pb::TurnToolProgress {
            tool_turn: call.tool_turn,
            index: call.index,
            progress: progress.progress,
            total: progress.total,
            message: progress.message,
        }))
    }

    fn take_text(&mut self, delta: TextDelta, events: &mut Vec<Event>) {
        // Before the last event that the client has, it is not known which reply the client lacks.
        let is_behind = self.seq < self.after_seq;
        let is_ahead = is_behind || self.run == 0 || delta.tool_turn > self.writing.0;
        if is_ahead && self.ahead.len() < MOST_AHEAD {
            self.ahead.push(delta);
        } else if !is_ahead {
            self.write(&delta, events);
        }
    }

    /// What came before its time is written now, if its time has come.
    fn take_ahead(&mut self, events: &mut Vec<Event>) {
        for delta in std::mem::take(&mut self.ahead) {
            self.take_text(delta, events);
        }
    }

    fn write(&mut self, delta: &TextDelta, events: &mut Vec<Event>) {
        let is_of_turn = self.run > 0 && delta.attempt.is_some_and(|at| at.run == self.run);
        let (tool_turn, written) = (self.writing.0, self.writing.1.len() as u64);
        let continues = delta.offset == written && delta.retry == self.retry;
        let is_next = delta.tool_turn == tool_turn && (continues || delta.offset == 0);
        // What a lost part leaves out follows with the whole reply.
        if !is_of_turn || !is_next || delta.text.is_empty() {
            return;
        }
        if delta.offset == 0 {
            self.begin_text(events);
            self.retry = delta.retry;
        }
        self.send_text(&delta.text, events);
    }

    /// The text of the reply begins: what the client has of it does not count.
    fn begin_text(&mut self, events: &mut Vec<Event>) {
        if self.is_resumed || !self.writing.1.is_empty() {
            events.push(Event::Reset(pb::TextReset {
                tool_turn: self.writing.0,
            }));
        }
        self.is_resumed = false;
        self.writing.1.clear();
    }

    fn send_text(&mut self, text: &str, events: &mut Vec<Event>) {
        let (tool_turn, written) = &mut self.writing;
        events.push(Event::Text(pb::AssistantTextDelta {
            text: text.to_owned(),
            tool_turn: *tool_turn,
            offset: written.len() as u64,
        }));
        written.push_str(text);
    }

    fn take_event(&mut self, kind: Kind, events: &mut Vec<Event>) {
        self.usage.add(&self.compactions.charge(self.run, &kind));
        match kind {
            Kind::TurnQueued(queued) if self.queued.is_none() && self.run == 0 => {
                self.queued = Some(queued.number);
                let number = queued.number;
                events.push(Event::Queued(pb::TurnQueued { number }));
            }
            Kind::QueuedTurnDropped(dropped) if Some(dropped.number) == self.queued => {
                events.push(match dropped.failure {
                    None => cancelled(0, &dropped.reason, false),
                    failure => Event::Error(pb::TurnError {
                        failure,
                        ..pb::TurnError::default()
                    }),
                });
            }
            Kind::RunStarted(started) => self.begin(started, events),
            Kind::ReplyReceived(reply) if is_of(reply.attempt, self.run) => {
                self.take_reply(reply, events);
            }
            Kind::CallFinished(finished) => self.take_finished(finished, events),
            Kind::HooksAnswered(answered) => self.take_hooks(answered, events),
            Kind::CallSettled(settled) => self.take_settled(settled, events),
            Kind::ContextCompacted(compacted) if is_of(compacted.attempt, self.run) => {
                events.push(Event::Compacted(compactions::shown(&compacted)));
            }
            Kind::RunWaiting(waiting) if waiting.run == self.run => {
                let reason = waiting.reason;
                events.push(Event::Waiting(pb::TurnWaiting { reason }));
            }
            Kind::RunPaused(paused) if paused.run == self.run => {
                events.push(Event::Waiting(pb::TurnWaiting::default()));
            }
            Kind::RunResumed(resumed) if resumed.run == self.run => {
                events.push(Event::Resumed(pb::TurnResumed {}));
            }
            Kind::RunCompleted(completed) if completed.run == self.run => {
                events.push(Event::Complete(self.completed(completed.journal_permille)));
            }
            Kind::RunFailed(failed) if failed.run == self.run => {
                self.release(&failed.results, events);
                self.take_open(failed.results, events);
                events.push(Event::Error(pb::TurnError {
                    failure: failed.failure,
                    run: failed.run,
                    is_kept: failed.kept_through > 0,
                }));
            }
            Kind::RunCancelled(event) if event.run == self.run => {
                self.release(&event.results, events);
                self.take_open(event.results, events);
                let is_kept = event.kept_through > 0;
                events.push(cancelled(event.run, &event.reason, is_kept));
            }
            _ => {}
        }
    }

    fn begin(&mut self, started: RunStarted, events: &mut Vec<Event>) {
        let Some(turn) = started.turn else {
            return;
        };
        // The first event of the stream answers the command; a queued turn begins later.
        let is_own = match self.queued {
            Some(number) => turn.queued == number,
            None => true,
        };
        if self.run > 0 || !is_own {
            return;
        }
        (self.run, self.turn_index) = (started.run, turn.turn_index);
        events.push(Event::Started(pb::TurnStarted {
            run: started.run,
            context: turn.context,
        }));
    }

    /// A reply is durable: the client is sent what it lacks of the text, and the calls. One that is held waits.
    fn take_reply(&mut self, reply: ReplyReceived, events: &mut Vec<Event>) {
        let Some(reply) = self.held.reply(reply) else {
            return;
        };
        let written = &self.writing.1;
        match reply.text.strip_prefix(written.as_str()) {
            // Another try may have had the same beginning; the client has it either way.
            Some(rest) if !self.is_resumed && reply.tool_turn == self.writing.0 => {
                let rest = rest.to_owned();
                if !rest.is_empty() {
                    self.send_text(&rest, events);
                }
            }
            _ => {
                self.begin_text(events);
                self.writing.0 = reply.tool_turn;
                if !reply.text.is_empty() {
                    self.send_text(&reply.text, events);
                }
            }
        }
        let (tool_turn, finish) = (reply.tool_turn, reply.finish());
        let continues = self.finish == i32::from(FinishReason::Length) && self.calls.is_empty();
        match continues {
            true => self.response.push_str(&reply.text),
            false => self.response = reply.text,
        }
        let usage: Option<Usage> = reply.usage.map(Into::into);
        self.usage.add(&usage.unwrap_or_default());
        self.finish = finish.into();
        let calls = reply
            .calls
            .into_iter()
            .filter_map(|requested| requested.call);
        self.calls = calls.collect();
        for (call, index) in self.calls.iter().zip(0..) {
            events.push(Event::ToolCall(pb::TurnToolCall {
                tool_turn,
                index,
                call: Some(call.clone()),
            }));
        }
        self.writing = (tool_turn + 1, String::new());
        // A client may have parts of the reply after the last event that it has.
        self.is_resumed = self.client_has_last();
    }

    /// A call has ended. A result that is held waits.
    fn take_finished(&mut self, finished: CallFinished, events: &mut Vec<Event>) {
        if let Some(finished) = self.held.result(finished) {
            self.take_result(finished, events);
        }
    }

    /// Hooks have answered about the last reply, or about a result.
    fn take_hooks(&mut self, answered: HooksAnswered, events: &mut Vec<Event>) {
        match self.held.answered(answered) {
            Some(Released::Reply(reply)) => self.take_reply(*reply, events),
            Some(Released::Result(finished)) => self.take_result(*finished, events),
            Some(Released::Usage(usage)) => {
                let usage: Usage = usage.into();
                self.usage.add(&usage);
            }
            None => {}
        }
    }

    /// The turn ends before hooks have answered. A client sees the results as they came, unless the context keeps others
    /// in their place.
    fn release(&mut self, kept: &[OpenCall], events: &mut Vec<Event>) {
        for finished in self.held.results() {
            if kept.iter().all(|open| open.call != finished.call) {
                self.take_result(finished, events);
            }
        }
    }

    /// A person has said what came of a call in doubt. One that is made again has its result later.
    fn take_settled(&self, settled: CallSettled, events: &mut Vec<Event>) {
        let settlement = settled.settlement.map(Settlement::try_from);
        if let Some(Ok(settlement)) = settlement
            && let Some((output, is_error)) = settlement.result(&settled.output)
        {
            let finished = CallFinished {
                call: settled.call,
                output: output.to_owned(),
                is_error,
                ..CallFinished::default()
            };
            self.take_result(finished, events);
        }
    }

    /// Calls without a result, or with one that hooks did not let pass, have the one that the context keeps.
    fn take_open(&self, results: Vec<OpenCall>, events: &mut Vec<Event>) {
        for open in results {
            let finished = CallFinished {
                call: open.call,
                output: open.output,
                is_error: true,
                ..CallFinished::default()
            };
            self.take_result(finished, events);
        }
    }

    fn take_result(&self, finished: CallFinished, events: &mut Vec<Event>) {
        let Some(name) = finished.call else {
            return;
        };
        let is_of_turn = name
            .attempt
            .is_some_and(|at| self.run > 0 && at.run == self.run);
        let call = self.calls.get(name.index as usize);
        if let Some(call) = call.filter(|_| is_of_turn) {
            events.push(Event::ToolResult(pb::TurnToolResult {
                tool_turn: name.tool_turn,
                index: name.index,
                result: Some(ToolResult {
                    call_id: call.id.clone(),
                    text: finished.output,
                    is_error: finished.is_error,
                }),
                whole: finished.whole,
            }));
        }
    }

    fn completed(&mut self, journal_permille: u32) -> pb::TurnComplete {
        pb::TurnComplete {
            reason: self.finish,
            response: std::mem::take(&mut self.response),
            usage: Some(self.usage.into()),
            turn_index: self.turn_index,
            run: self.run,
            calls: std::mem::take(&mut self.calls),
            journal_permille,
        }
    }
}

/// The attempt is one of the run.
fn is_of(attempt: Option<AttemptRef>, run: u32) -> bool {
    attempt.is_some_and(|attempt| attempt.run == run)
}

fn is_end(event: &Event) -> bool {
    matches!(event, Event::Complete(_) | Event::Error(_))
}

fn cancelled(run: u32, reason: &str, is_kept: bool) -> Event {
    let message = match reason {
        "" => "the turn was cancelled".to_owned(),
        reason => format!("the turn was cancelled: {reason}"),
    };
    let failure = Failure {
        kind: cairn_proto::event::FailureKind::Other.into(),
        reason: "Cancelled".to_owned(),
        message,
        recoverable: false,
    };
    Event::Error(pb::TurnError {
        failure: Some(failure),
        run,
        is_kept,
    })
}

#[cfg(test)]
mod tests;
