//! One step of a run, as far as it has got.

use crate::ui::event_line::step_name;
use cairn_proto::event as wire;
use cairn_proto::event::hook_mutation::Change;
use cairn_rpc::text::clip;
use serde_json::Value;

/// Longest piece of untrusted text that is kept, in bytes.
const PIECE: usize = 200;
/// The tool that writes reports.
const WRITER: &str = "write_file";

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
    /// Its number in the run; it keeps it when the plan is revised.
    pub number: u32,
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
    /// It ended before this process began to look, or under an earlier plan.
    pub kept: bool,
    pub(in crate::ui) tool: Option<(String, String)>,
    /// Calls of the latest reply that would write a report, with its name.
    pub(in crate::ui) reports: Vec<(u32, u32, String)>,
}

impl StepView {
    pub(super) fn new(number: u32, step: &wire::PlanStep) -> Self {
        let tool = step.tool.as_ref();
        Self {
            number,
            name: clip(&step_name(step), PIECE),
            tool: tool.map(|tool| (tool.name.clone(), tool.arguments_json.clone())),
            ..Self::default()
        }
    }

    /// Whether nothing more comes of it.
    pub fn is_over(&self) -> bool {
        !matches!(self.state, StepState::Pending | StepState::Running)
    }

    pub(super) fn start(&mut self, at: i64) {
        self.state = StepState::Running;
        self.started_ms = at;
        self.parts = (0, 0);
        if let Some((tool, arguments)) = &self.tool {
            self.call = call_text(tool, arguments);
            let report = report_of(tool, arguments);
            self.reports = report.map(|name| (0, 0, name)).into_iter().collect();
        }
    }

    pub(super) fn reply(&mut self, reply: &wire::ReplyReceived) {
        self.reports.clear();
        for (index, requested) in (0..).zip(&reply.calls) {
            let Some(call) = &requested.call else {
                continue;
            };
            if requested.effect() != wire::Effect::State {
                self.call = call_text(&call.name, &call.arguments_json);
            }
            let report = report_of(&call.name, &call.arguments_json);
            self.reports
                .extend(report.map(|name| (reply.tool_turn, index, name)));
        }
    }

    /// The name of the report that a call has written.
    pub(super) fn written_report(&self, finished: &wire::CallFinished) -> Option<String> {
        let call = finished.call.unwrap_or_default();
        let mut reports = self.reports.iter().filter(|_| !finished.is_error);
        let written =
            reports.find(|(turn, index, _)| (call.tool_turn, call.index) == (*turn, *index));
        written.map(|(_, _, name)| name.clone())
    }

    /// Takes the arguments that hooks put in the place of those of the model.
    pub(super) fn hooked(&mut self, event: &wire::HooksAnswered) {
        let gate = event.gate.unwrap_or_default();
        if gate.point() != wire::HookPoint::PreToolCall {
            return;
        }
        for outcome in &event.outcomes {
            let change = outcome.mutation.as_ref();
            let change = change.and_then(|mutation| mutation.change.as_ref());
            let Some(Change::ArgumentsJson(arguments)) = change else {
                continue;
            };
            self.reports.retain_mut(|(turn, index, name)| {
                if (*turn, *index) != (gate.turn, outcome.index) {
                    return true;
                }
                let report = report_of(WRITER, arguments);
                let is_report = report.is_some();
                *name = report.unwrap_or_default();
                is_report
            });
        }
    }

    pub(super) fn end(&mut self, state: StepState, at: i64, kept: bool, result: &str) {
        self.state = state;
        self.ended_ms = at;
        self.kept = kept;
        let line = result.lines().find(|line| !line.trim().is_empty());
        self.result = clip(line.unwrap_or_default().trim(), PIECE);
    }
}

/// The name of the report that a call would write into the output folder.
fn report_of(tool: &str, arguments: &str) -> Option<String> {
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let path = arguments["path"].as_str().unwrap_or_default();
    let name = path.trim_start_matches("./").strip_prefix("cairn-out/")?;
    let is_report = tool == WRITER && name.starts_with("report") && name.ends_with(".md");
    (is_report && !name.contains('/')).then(|| name.to_owned())
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
