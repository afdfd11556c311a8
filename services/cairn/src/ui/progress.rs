//! How far a run has got, from its events.

use super::event_line::step_name;
use super::writing::Writing;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_rpc::text::clip;
use serde_json::Value;

/// Where runs put their report.
pub const REPORT: &str = "cairn-out/report.md";
/// Longest piece of untrusted text that is kept, in bytes.
const PIECE: usize = 200;

/// How far a step has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StepState {
    /// Not begun.
    #[default]
    Pending,
    /// Under way.
    Running,
    /// Ended well.
    Done,
    /// Ended badly.
    Failed,
    /// Will not be done.
    Skipped,
}

/// A step as it is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepView {
    /// Its title, escaped.
    pub name: String,
    /// How far it has got.
    pub state: StepState,
    /// Store time of its start, in milliseconds since 1970.
    pub started_ms: i64,
    /// Store time of its end.
    pub ended_ms: i64,
    /// Summary, failure or reason, escaped, one line.
    pub result: String,
    /// The call that the model asked for last, escaped.
    pub call: String,
    /// Parts that the model made of it, and how many of them are done.
    pub parts: (usize, usize),
    /// It ended before this process began to look.
    pub kept: bool,
    pub(super) tool: Option<(String, String)>,
    /// Calls of the latest reply that would write the report.
    pub(super) reports: Vec<(u32, u32)>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// With this answer.
    Completed(String),
    /// Because of this.
    Failed(wire::Failure),
    /// By somebody's wish, for this reason.
    Cancelled(String),
}

/// How far a run has got.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// Its number.
    pub run: u32,
    /// The seq up to which events were there before this process began to look.
    pub seen_before: u64,
    /// `chain` or `graph`.
    pub order: &'static str,
    /// The steps; empty while planning.
    pub steps: Vec<StepView>,
    /// Why it waits, as a `WaitReason`.
    pub waits: Option<i32>,
    /// How it ended.
    pub end: Option<End>,
    /// What it used up.
    pub usage: wire::Usage,
    /// Answers of the model to steps.
    pub tool_turns: u32,
    /// Store time of its start, in milliseconds since 1970.
    pub started_ms: i64,
    /// Store time of its latest event.
    pub latest_ms: i64,
    /// It wrote [`REPORT`] itself.
    pub wrote_report: bool,
    /// What the models of its steps are writing.
    pub writing: Writing,
    pub(super) began: bool,
}

impl Progress {
    /// Of this run; events up to `seen_before` are history.
    pub fn new(run: u32, seen_before: u64) -> Self {
        Self {
            run,
            seen_before,
            ..Self::default()
        }
    }

    /// Takes the next event. False if it belongs to another run, or to none.
    pub fn apply(&mut self, seq: u64, event: &wire::Event) -> bool {
        let Some(kind) = &event.kind else {
            return false;
        };
        if let Kind::RunStarted(e) = kind {
            self.began = e.run == self.run;
            if self.began {
                self.started_ms = event.at_unix_ms;
            }
        }
        if !self.began || self.end.is_some() {
            return false;
        }
        self.latest_ms = event.at_unix_ms;
        self.run_event(kind);
        self.step_event(seq, event.at_unix_ms, kind);
        true
    }

    /// The steps that are under way, with their numbers.
    pub fn running(&self) -> impl Iterator<Item = (u32, &StepView)> {
        let steps = (1..).zip(&self.steps);
        steps.filter(|(_, step)| step.state == StepState::Running)
    }

    /// Number of steps in this state.
    pub fn count(&self, state: StepState) -> usize {
        let steps = self.steps.iter();
        steps.filter(|step| step.state == state).count()
    }

    fn run_event(&mut self, kind: &Kind) {
        match kind {
            Kind::PlanApplied(e) => self.plan(e),
            Kind::RunWaiting(e) => self.waits = Some(e.reason),
            Kind::RunResumed(_) => self.waits = None,
            Kind::RunCompleted(e) => self.end = Some(End::Completed(e.answer.clone())),
            Kind::RunFailed(e) => {
                self.spend(e.usage.as_ref());
                self.end = Some(End::Failed(e.failure.clone().unwrap_or_default()));
            }
            Kind::RunCancelled(e) => self.end = Some(End::Cancelled(e.reason.clone())),
            Kind::ReplyReceived(e) => {
                self.tool_turns += 1;
                self.spend(e.usage.as_ref());
            }
            _ => {}
        }
    }

    fn plan(&mut self, event: &wire::PlanApplied) {
        self.spend(event.usage.as_ref());
        let plan = event.plan.clone().unwrap_or_default();
        self.order = match plan.order() {
            wire::Order::Graph => "graph",
            wire::Order::Chain | wire::Order::Unspecified => "chain",
        };
        let steps = plan.steps.into_iter().map(|step| StepView {
            name: clip(&step_name(&step), PIECE),
            tool: step.tool.map(|tool| (tool.name, tool.arguments_json)),
            ..StepView::default()
        });
        self.steps = steps.collect();
    }

    fn spend(&mut self, usage: Option<&wire::Usage>) {
        let more = usage.copied().unwrap_or_default();
        self.usage.input_tokens += more.input_tokens;
        self.usage.output_tokens += more.output_tokens;
        self.usage.cost_nano_usd += more.cost_nano_usd;
        self.usage.model_calls += more.model_calls;
    }

    fn step_event(&mut self, seq: u64, at: i64, kind: &Kind) {
        let Some(number) = step_number(kind) else {
            return;
        };
        // What the model was writing is whole now, or will not come any more.
        let goes_on = matches!(kind, Kind::CallFinished(_) | Kind::StepStarted(_));
        if !goes_on {
            self.writing.end(number);
        }
        let kept = seq <= self.seen_before;
        let index = usize::try_from(number).unwrap_or(0).wrapping_sub(1);
        let Some(step) = self.steps.get_mut(index) else {
            return;
        };
        match kind {
            Kind::StepStarted(_) => step.start(at),
            Kind::ReplyReceived(e) => step.reply(e),
            Kind::CallFinished(e) => self.wrote_report |= step.has_written_report(e),
            Kind::SubGoalAdded(_) => step.parts.1 += 1,
            Kind::SubGoalCompleted(_) => step.parts.0 += 1,
            Kind::StepCompleted(e) => {
                let text = [e.summary.as_str(), e.response.as_str()];
                let text = text.into_iter().find(|text| !text.is_empty());
                step.end(StepState::Done, at, kept, text.unwrap_or_default());
            }
            Kind::StepFailed(e) => {
                let why = e.failure.as_ref().map_or("", |failure| &failure.message);
                step.end(StepState::Failed, at, kept, why);
            }
            Kind::StepSkipped(e) => step.end(StepState::Skipped, at, kept, &e.reason),
            _ => {}
        }
    }
}

impl StepView {
    fn start(&mut self, at: i64) {
        self.state = StepState::Running;
        self.started_ms = at;
        self.parts = (0, 0);
        if let Some((tool, arguments)) = &self.tool {
            self.call = call_text(tool, arguments);
            if writes_report(tool, arguments) {
                self.reports = vec![(0, 0)];
            }
        }
    }

    fn reply(&mut self, reply: &wire::ReplyReceived) {
        self.reports.clear();
        for (index, requested) in (0..).zip(&reply.calls) {
            let Some(call) = &requested.call else {
                continue;
            };
            if requested.effect() != wire::Effect::State {
                self.call = call_text(&call.name, &call.arguments_json);
            }
            if writes_report(&call.name, &call.arguments_json) {
                self.reports.push((reply.tool_turn, index));
            }
        }
    }

    fn has_written_report(&self, finished: &wire::CallFinished) -> bool {
        let call = finished.call.unwrap_or_default();
        !finished.is_error && self.reports.contains(&(call.tool_turn, call.index))
    }

    fn end(&mut self, state: StepState, at: i64, kept: bool, result: &str) {
        self.state = state;
        self.ended_ms = at;
        self.kept = kept;
        let line = result.lines().find(|line| !line.trim().is_empty());
        self.result = clip(line.unwrap_or_default().trim(), PIECE);
    }
}

fn step_number(kind: &Kind) -> Option<u32> {
    let attempt = match kind {
        Kind::StepSkipped(e) => return Some(e.step),
        Kind::StepStarted(e) => e.attempt,
        Kind::StepCompleted(e) => e.attempt,
        Kind::StepFailed(e) => e.attempt,
        Kind::ReplyReceived(e) => e.attempt,
        Kind::SubGoalAdded(e) => e.attempt,
        Kind::SubGoalCompleted(e) => e.attempt,
        Kind::CallFinished(e) => e.call.and_then(|call| call.attempt),
        _ => None,
    };
    attempt.map(|attempt| attempt.step)
}

fn writes_report(tool: &str, arguments: &str) -> bool {
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let path = arguments["path"].as_str().unwrap_or_default();
    tool == "write_file" && path.trim_start_matches("./") == REPORT
}

/// A call in a few words: the tool and the argument that says most, which models put first.
fn call_text(tool: &str, arguments: &str) -> String {
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let named = ["path", "pattern", "query"];
    let named = named.iter().find_map(|name| arguments[name].as_str());
    let first = || arguments.as_object()?.values().find_map(Value::as_str);
    let text = match named.or_else(first) {
        Some(argument) => format!("{tool} {argument}"),
        None => tool.to_owned(),
    };
    clip(&text, PIECE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planning_that_failed_was_paid_for() {
        let usage = wire::Usage {
            input_tokens: 700,
            output_tokens: 40,
            cost_nano_usd: 5,
            model_calls: 2,
        };
        let started = wire::RunStarted {
            run: 1,
            ..wire::RunStarted::default()
        };
        let failed = wire::RunFailed {
            run: 1,
            usage: Some(usage),
            ..wire::RunFailed::default()
        };
        let mut progress = Progress::new(1, 0);
        for kind in [Kind::RunStarted(started), Kind::RunFailed(failed)] {
            let event = wire::Event {
                at_unix_ms: 0,
                kind: Some(kind),
            };
            assert!(progress.apply(1, &event));
        }
        assert_eq!(progress.usage, usage);
    }
}
