//! Pieces of lines. All text in them is escaped and bounded, unless it says otherwise.

use super::{Mark, agents};
use crate::ui::modes;
use crate::ui::time::span;
use cairn_boot::config::duration;
use cairn_engine::limits::NEARLY_FULL_JOURNAL;
use cairn_proto::event as wire;
use cairn_proto::json;
use cairn_rpc::text::clip;
use cairn_views::figures::rest_of_result;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::time::Duration;

/// Longest piece of untrusted text in a line, in bytes.
pub(super) const PIECE: usize = 160;

/// The title of a step, or what else names it. Not escaped.
pub fn step_name(step: &wire::PlanStep) -> String {
    let tool = step.tool.as_ref().map_or("", |tool| tool.name.as_str());
    let names = [step.title.as_str(), step.description.as_str(), tool];
    let name = names.into_iter().find(|name| !name.is_empty());
    name.unwrap_or(&step.id).to_owned()
}

/// What a step does beside its name, and what it waits for, each on a line, escaped: what somebody has to
/// know who is to agree to it. `numbers` are those that the steps are shown with, by id: an id may look like
/// the number of another step, once the plan has changed.
pub fn step_facts(step: &wire::PlanStep, numbers: &HashMap<&str, u32>) -> Vec<String> {
    let name = step_name(step);
    let call = step.tool.as_ref();
    let call = call.map(|tool| format!("{} {}", tool.name, tool.arguments_json));
    let description = Some(step.description.clone());
    let description = description.filter(|text| !text.is_empty() && *text != name);
    let number = |id: &String| match numbers.get(id.as_str()) {
        Some(number) => number.to_string(),
        None => id.clone(),
    };
    let after: Vec<String> = step.depends_on.iter().map(number).collect();
    let after = (!after.is_empty()).then(|| format!("after {}", after.join(", ")));
    let facts = [call, description, after].into_iter().flatten();
    facts.map(|fact| clip(&fact, 200)).collect()
}

/// Why something failed, on one line, escaped.
pub fn failure_text(failure: Option<&wire::Failure>) -> String {
    let Some(failure) = failure else {
        return "no reason given".to_owned();
    };
    let message = clip(&failure.message, 2 * PIECE);
    let reason = clip(&failure.reason, PIECE);
    // Tools say it in front themselves.
    let is_said = message.strip_prefix(reason.as_str());
    match is_said.is_some_and(|rest| reason.is_empty() || rest.starts_with(':')) {
        true => message,
        false if message.is_empty() => reason,
        false => format!("{message} ({reason})"),
    }
}

/// How full a journal is, if it is nearly full: `the journal is 93 % full`.
pub fn nearly_full(journal_permille: u32) -> Option<String> {
    let percent = (journal_permille / 10).min(100);
    let is_said = journal_permille >= NEARLY_FULL_JOURNAL;
    is_said.then(|| format!("the journal is {percent} % full"))
}

/// What a waiting run waits for, for people.
pub fn waits_for(reason: i32) -> &'static str {
    match wire::WaitReason::try_from(reason).unwrap_or_default() {
        wire::WaitReason::Unspecified => "somebody has to decide something",
        wire::WaitReason::InDoubt => "nobody knows how a call ended",
        wire::WaitReason::Budget => "a budget is used up",
        wire::WaitReason::Approval => "a call needs a person's approval",
        wire::WaitReason::Question => "a question needs a person's answer",
        wire::WaitReason::PlanReview => "a person is to look at the plan",
        wire::WaitReason::Context => "the next request of a model does not fit",
        wire::WaitReason::Capability => "no resource of the pool has what a step needs",
        wire::WaitReason::Hook => "a hook needs a person's decision",
    }
}

/// Which budget is used up, for people.
pub fn used_up(budget: i32) -> &'static str {
    match wire::Budget::try_from(budget).unwrap_or_default() {
        wire::Budget::Unspecified => "a budget is used up",
        wire::Budget::Turns => "its tool turns are used up",
        wire::Budget::Tokens => "its tokens are used up",
        wire::Budget::Cost => "its money is used up",
        wire::Budget::Time => "its time is used up",
        wire::Budget::Calls => "its tool calls are used up",
        wire::Budget::ToolTurns => "the tool turns of a step or a turn are used up",
    }
}

pub(super) fn command_text(command: Option<&wire::Command>) -> String {
    use wire::command::Kind;
    match command.and_then(|command| command.kind.as_ref()) {
        None => "something that this version does not know".to_owned(),
        Some(Kind::StartRun(start)) if start.goal.is_empty() => "carry out a plan".to_owned(),
        Some(Kind::StartRun(start)) => format!("run{}", after_colon(&start.goal)),
        Some(Kind::CancelRun(cancel)) => {
            format!(
                "cancel {}{}",
                the_run(cancel.run),
                after_colon(&cancel.reason)
            )
        }
        Some(Kind::SwitchAgent(switch)) => match switch.context.as_str() {
            "" => format!("the agent {}", agents::shown(&switch.agent)),
            context => {
                let context = clip(context, PIECE);
                format!(
                    "the agent {} for context {context}",
                    agents::shown(&switch.agent)
                )
            }
        },
        Some(Kind::SubmitTurn(turn)) => {
            format!("turn{}", after_colon(&said(turn.message.as_ref())))
        }
        Some(Kind::SendMessage(sent)) => {
            format!("message{}", after_colon(&said(sent.message.as_ref())))
        }
        Some(Kind::Decide(decide)) => format!(
            "decide {}: {}",
            clip(&decide.pending_id, PIECE),
            settlement_text(decide.settlement.as_ref())
        ),
        Some(Kind::SetMode(set)) => format!("the mode {}", modes::name(set.mode())),
        Some(other) => change_text(other),
    }
}

/// The texts of a message without notices of Cairn.
fn said(message: Option<&wire::Message>) -> String {
    let parts = message.iter().flat_map(|message| &message.parts);
    let texts = parts.filter_map(|part| part.said());
    texts.collect::<Vec<_>>().join(" ")
}

/// Whoever names no run means the latest.
fn the_run(number: u32) -> String {
    match number {
        0 => "the latest run".to_owned(),
        number => format!("run {number}"),
    }
}

/// What is to be different about a run that there is.
fn change_text(command: &wire::command::Kind) -> String {
    use wire::command::Kind;
    match command {
        Kind::RevisePlan(revise) => {
            let verb = if revise.apply { "change" } else { "propose" };
            let how = match revise.plan {
                Some(_) => ": as given".to_owned(),
                None => after_colon(&revise.feedback),
            };
            format!("{verb} the plan of {}{how}", the_run(revise.run))
        }
        Kind::ApplyProposal(apply) => {
            format!(
                "apply proposal {} of {}",
                apply.proposal,
                the_run(apply.run)
            )
        }
        Kind::RedoStep(redo) => format!("do step {} of {} again", redo.step, the_run(redo.run)),
        Kind::SkipStep(skip) => {
            let why = after_colon(&skip.reason);
            format!("skip step {} of {}{why}", skip.step, the_run(skip.run))
        }
        Kind::PauseRun(pause) => {
            format!("pause {}{}", the_run(pause.run), after_colon(&pause.reason))
        }
        Kind::ResumeRun(resume) => format!("resume run {}", resume.run),
        Kind::CompactContext(compact) => {
            let context = match compact.context.as_str() {
                "" => "the active context".to_owned(),
                name => format!("context {}", clip(name, PIECE)),
            };
            format!("compact {context}{}", after_colon(&compact.keep_in_mind))
        }
        other => {
            let command = wire::Command {
                kind: Some(other.clone()),
            };
            by_name(json::fields("cairn.event.v1.Command", &command))
        }
    }
}

/// An event of a kind that has no words of its own.
pub(super) fn event_by_name(kind: &wire::event::Kind) -> String {
    let event = wire::Event {
        kind: Some(kind.clone()),
        ..wire::Event::default()
    };
    by_name(json::fields("cairn.event.v1.Event", &event))
}

/// The name of the choice that is set, and its fields.
fn by_name(fields: Map<String, Value>) -> String {
    let set = fields.into_iter().find(|(_, value)| value.is_object());
    let (name, value) = set.unwrap_or_default();
    let name = name.replace('_', " ");
    clip(&format!("{name}: {value}"), PIECE)
}

pub(super) fn settlement_text(settlement: Option<&wire::Settlement>) -> String {
    use wire::settlement::Outcome;
    match settlement.and_then(|settlement| settlement.outcome.as_ref()) {
        None => "unknown".to_owned(),
        Some(Outcome::Done(done)) => format!("done{}", after_colon(&done.output)),
        Some(Outcome::Retry(_)) => "retry".to_owned(),
        Some(Outcome::Skip(skip)) => format!("skip{}", after_colon(&skip.reason)),
        Some(Outcome::Fail(fail)) => format!("fail{}", after_colon(&fail.reason)),
        Some(Outcome::Approve(_)) => "approve".to_owned(),
        Some(Outcome::ApproveAlways(always)) => {
            let scope = after_colon(&always.scope);
            let when = super::tools::conditions(&always.when);
            format!("approve for the rest of the session{scope}{when}")
        }
        Some(Outcome::Deny(deny)) => format!("deny{}", after_colon(&deny.reason)),
        Some(Outcome::Answer(answer)) => format!("answer{}", after_colon(&answer.text)),
    }
}

/// `: text`, escaped and cut; nothing if there is no text.
pub(super) fn after_colon(text: &str) -> String {
    match text.trim() {
        "" => String::new(),
        text => format!(": {}", clip(text, PIECE)),
    }
}

/// How a call ended, and what came of it.
pub(super) fn result(event: &wire::CallFinished) -> (Mark, String) {
    let (mark, verb) = match event.is_error {
        true => (Mark::Bad, "failed"),
        false => (Mark::Plain, "gave"),
    };
    let gist = match &event.whole {
        Some(whole) => {
            let first = event.output.trim().lines().next().unwrap_or_default();
            let rest = rest_of_result(whole.bytes, &clip(&whole.handle, PIECE));
            format!("{} {rest}", after_colon(first))
        }
        None => gist(&event.output),
    };
    let time = span(event.duration_ms);
    (mark, format!("{verb}{gist} ({time})"))
}

/// The first line of an output, and how many there are.
fn gist(output: &str) -> String {
    let output = output.trim();
    let first = output.lines().next().unwrap_or_default();
    match output.lines().count() {
        0 => " nothing".to_owned(),
        1 => after_colon(first),
        lines => format!("{} … {lines} lines", after_colon(first)),
    }
}

/// Where a session was copied from.
pub(super) fn forked(event: &wire::ForkedFrom) -> String {
    let (session, title) = (clip(&event.session, PIECE), after_colon(&event.title));
    format!("forked from {session} at {}{title}", event.at_seq)
}

/// How long a session stays, if that was said.
pub(super) fn stays(created: &wire::SessionCreated) -> String {
    match created.time_to_live_ms {
        0 => String::new(),
        ms => format!(
            ", to be kept for {}",
            duration::show(Duration::from_millis(ms))
        ),
    }
}
