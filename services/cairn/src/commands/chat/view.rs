//! A turn as people see it: what the server sends becomes text and lines. Pure.

mod call;

use crate::ui::compaction::became;
use crate::ui::event_line::failure_text;
use crate::ui::flow::one_line;
use crate::ui::live::wrap;
use crate::ui::style::Style;
use crate::ui::time::span;
use cairn_proto::event::{FinishReason, Usage, WaitReason};
use cairn_proto::orchestrator as pb;
use cairn_rpc::text::escape;
use cairn_views::figures::{dollars, grouped};
use call::Called;
use pb::turn_event::Event;
use std::collections::BTreeMap;

/// Narrower terminals break lines themselves.
const NARROWEST: usize = 40;
const PAUSED: &str = "? a person paused the turn; it continues after cairn resume";
/// Most bytes of text that wait for the results of the calls before it.
const MOST_EARLY: usize = 400;
/// Milliseconds between two lines about the progress of calls.
const PROGRESS_MS: u64 = 1000;

/// Something to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shown {
    /// Part of a reply, as the model wrote it.
    Text(String),
    /// The reply has no more text.
    End,
    /// A whole line, ready for the terminal.
    Line(String),
}

/// What has become of the turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum State {
    /// It has not ended.
    #[default]
    Running,
    /// It waits for a person's decision.
    Waiting,
    /// It completed; the text of the response.
    Completed(String),
    /// It failed or was cancelled.
    Failed,
}

/// A turn as it is shown.
#[derive(Debug)]
pub(super) struct View {
    style: Style,
    columns: usize,
    /// Number of the run; 0 before the turn has begun.
    pub(super) run: u32,
    /// What has become of it.
    pub(super) state: State,
    /// How full the journal is by the end of the turn, in thousandths; 0 while that is not worth a word.
    pub(super) journal_permille: u32,
    /// Its context; before the turn has begun, the one in which it is expected.
    pub(super) context: String,
    /// A person paused it.
    is_paused: bool,
    /// The number of the reply whose text was shown last, until the reply ends.
    writing: Option<u32>,
    /// The calls without a result.
    calls: BTreeMap<(u32, u32), Called>,
    /// The beginning of a reply that came before the results of those calls.
    early: String,
    /// The number of that reply.
    early_of: u32,
    /// When the next line about the progress of a call may come, in the turn's milliseconds.
    next_progress: u64,
}

impl View {
    /// A turn of which nothing is known, on a terminal with so many columns.
    pub(super) fn new(style: Style, columns: usize) -> Self {
        Self {
            style,
            columns: columns.max(NARROWEST),
            run: 0,
            state: State::Running,
            journal_permille: 0,
            context: String::new(),
            is_paused: false,
            writing: None,
            calls: BTreeMap::new(),
            early: String::new(),
            early_of: 0,
            next_progress: 0,
        }
    }

    /// The turn is expected in this context.
    pub(super) fn after(mut self, context: &str) -> Self {
        context.clone_into(&mut self.context);
        self
    }

    /// The turn has ended.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Completed(_) | State::Failed)
    }

    /// Takes what the server sends. `ms` is how long the turn has taken for this person so far.
    pub(super) fn take(&mut self, response: &pb::SubmitTurnResponse, ms: u64) -> Vec<Shown> {
        let mut shown = Vec::new();
        let events = response.events.iter();
        for event in events.filter_map(|event| event.event.as_ref()) {
            self.take_event(event, ms, &mut shown);
        }
        shown
    }

    fn take_event(&mut self, event: &Event, ms: u64, shown: &mut Vec<Shown>) {
        match event {
            Event::Queued(_) => {
                shown.push(self.dim("the turn waits until the active run ends"));
            }
            Event::Started(begins) => shown.extend(self.begin(begins)),
            Event::Text(delta) => self.text(delta, shown),
            Event::Reset(_) => self.reset(shown),
            Event::ToolCall(called) => {
                self.end_text(shown);
                shown.push(self.call(called));
            }
            Event::ToolResult(result) => {
                shown.extend(self.result(result));
                if self.calls.is_empty() {
                    self.release(shown);
                }
            }
            Event::ToolProgress(progress) => shown.extend(self.progress(progress, ms)),
            Event::Compacted(it) => {
                self.end_text(shown);
                let (before, after) = (it.tokens_before, it.tokens_after);
                shown.push(self.dim(&became(it.kind(), it.replaced, before, after)));
            }
            Event::Waiting(paused) => {
                self.state = State::Waiting;
                if paused.reason() == WaitReason::Approval {
                    let calls = self.calls.values_mut();
                    calls.for_each(|called| called.may_be_known = true);
                }
                // Every other wait has a question, which is shown with its answers.
                self.is_paused = paused.reason() == WaitReason::Unspecified;
                if self.is_paused {
                    shown.push(Shown::Line(self.style.asks(PAUSED)));
                }
            }
            Event::Resumed(_) => {
                self.state = State::Running;
                if std::mem::take(&mut self.is_paused) {
                    shown.push(self.dim("the turn continues"));
                }
            }
            Event::Complete(complete) => {
                self.state = State::Completed(complete.response.clone());
                self.journal_permille = complete.journal_permille;
                self.end_text(shown);
                shown.extend(self.complete(complete, ms));
            }
            Event::Error(error) => {
                self.state = State::Failed;
                self.end_text(shown);
                shown.extend(self.error(error));
            }
        }
    }

    /// Another client may have made another context the active one.
    fn begin(&mut self, begins: &pb::TurnStarted) -> Option<Shown> {
        self.run = begins.run;
        let expected = std::mem::replace(&mut self.context, begins.context.clone());
        if expected.is_empty() || expected == self.context {
            return None;
        }
        let context = escape(&self.context);
        let text = format!("the active context is {context} now, and this turn continues it");
        Some(self.dim(&text))
    }

    fn text(&mut self, delta: &pb::AssistantTextDelta, shown: &mut Vec<Shown>) {
        match self.writing {
            Some(reply) if reply != delta.tool_turn => self.end_text(shown),
            // After a broken connection the reply may come again from its beginning.
            Some(_) if delta.offset == 0 => self.reset(shown),
            _ => {}
        }
        self.early.push_str(&delta.text);
        self.early_of = delta.tool_turn;
        // The next reply may begin before the results of the calls are durable: they are shown first, if
        // they come soon.
        if self.calls.is_empty() || self.early.len() > MOST_EARLY {
            self.release(shown);
        }
    }

    fn reset(&mut self, shown: &mut Vec<Shown>) {
        self.early.clear();
        if self.writing.is_some() {
            self.end_text(shown);
            shown.push(self.dim("… the reply begins anew; the text above does not count"));
        }
    }

    fn release(&mut self, shown: &mut Vec<Shown>) {
        if !self.early.is_empty() {
            self.writing = Some(self.early_of);
            shown.push(Shown::Text(std::mem::take(&mut self.early)));
        }
    }

    /// The reply has no more text.
    fn end_text(&mut self, shown: &mut Vec<Shown>) {
        self.release(shown);
        if self.writing.take().is_some() {
            shown.push(Shown::End);
        }
    }

    fn call(&mut self, called: &pb::TurnToolCall) -> Shown {
        let call = Called::new(called.call.clone().unwrap_or_default());
        let line = one_line(&call.asked(), self.columns.saturating_sub(3));
        self.calls.insert((called.tool_turn, called.index), call);
        let mark = self.style.active("→");
        Shown::Line(format!("{mark} {line}"))
    }

    /// How far a call is, a line a second at most, and none within a text.
    fn progress(&mut self, progress: &pb::TurnToolProgress, ms: u64) -> Option<Shown> {
        let called = self.calls.get(&(progress.tool_turn, progress.index))?;
        if self.writing.is_some() || ms < self.next_progress {
            return None;
        }
        let line = one_line(&called.progress(progress)?, self.columns.saturating_sub(3));
        self.next_progress = ms + PROGRESS_MS;
        Some(self.dim(&format!("… {line}")))
    }

    fn result(&mut self, result: &pb::TurnToolResult) -> Vec<Shown> {
        let called = self.calls.remove(&(result.tool_turn, result.index));
        let lines = called
            .unwrap_or_default()
            .result(self.style, result, self.columns);
        lines.into_iter().map(Shown::Line).collect()
    }

    fn complete(&mut self, complete: &pb::TurnComplete, ms: u64) -> Vec<Shown> {
        let mut shown = Vec::new();
        if complete.reason() == FinishReason::Length {
            shown.push(self.dim("the reply was cut at its length limit"));
        }
        for call in &complete.calls {
            let line = one_line(
                &format!("{} {}", call.name, call.arguments_json),
                self.columns.saturating_sub(3),
            );
            shown.push(self.dim(&format!("- {line}  (not made)")));
        }
        shown.push(self.dim(&cost_line(complete.usage.as_ref(), ms)));
        shown
    }

    fn error(&self, error: &pb::TurnError) -> Vec<Shown> {
        let failure = error.failure.as_ref();
        let stays = match error.is_kept {
            true => "what it did is kept",
            false => "no message of it is kept",
        };
        let text = match failure {
            Some(failure) if failure.reason == "Cancelled" => {
                let text = format!("{}; {stays}", escape(&failure.message));
                return self.lines(&text, Style::dim);
            }
            failure => failure_text(failure),
        };
        let text = format!("✗ the turn failed: {text}; {stays}");
        self.lines(&text, Style::bad)
    }

    /// A text in whole words, on as many lines as it needs.
    fn lines(&self, text: &str, paint: fn(Style, &str) -> String) -> Vec<Shown> {
        let lines = wrap(text, self.columns).into_iter();
        let lines = lines.map(|line| Shown::Line(paint(self.style, &line)));
        lines.collect()
    }

    fn dim(&self, text: &str) -> Shown {
        Shown::Line(self.style.dim(text))
    }
}

/// Tokens, cost and time: `1,200 tokens in, 340 out · $0.0056 · 3.4 s`; without tokens that were not
/// counted, and without a cost that is not known.
pub(super) fn cost_line(usage: Option<&Usage>, ms: u64) -> String {
    let usage = usage.copied().unwrap_or_default();
    let mut line = String::new();
    if usage.input_tokens + usage.output_tokens > 0 {
        let (sent, received) = (usage.input_tokens, usage.output_tokens);
        line = format!("{} tokens in, {} out · ", grouped(sent), grouped(received));
    }
    if usage.cost_nano_usd > 0 {
        line.push_str(&format!("${} · ", dollars(usage.cost_nano_usd)));
    }
    line + &span(ms)
}

#[cfg(test)]
mod tests;
