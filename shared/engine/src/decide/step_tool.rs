//! The `step` tool: the parts of a step, and its end.

use super::Decision;
use super::state_tools::{ASK_PERSON, Answer, Complaint, arguments, complain};
use crate::event::{AttemptRef, CallRef, EventKind};
use crate::limits::MAX_SUB_GOALS;
use crate::message::ToolCall;
use crate::state::{Attempt, Call, CallStatus, Turn};
use crate::transitions::IllegalTransition;
use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepArguments {
    #[serde(default)]
    plan: Option<Vec<String>>,
    #[serde(default)]
    focus: Option<String>,
    #[serde(default)]
    complete: Option<bool>,
    #[serde(default)]
    summary: Option<String>,
}

impl StepArguments {
    fn plan(&self) -> &[String] {
        self.plan.as_deref().unwrap_or_default()
    }

    fn completes(&self) -> bool {
        self.complete == Some(true)
    }
}

impl Decision<'_> {
    pub(super) fn manage_step(
        &mut self,
        attempt: AttemptRef,
        call: &ToolCall,
    ) -> Result<Answer, IllegalTransition> {
        let request: StepArguments = match arguments(call) {
            Ok(request) => request,
            Err(complaint) => return Ok(Err(complaint)),
        };
        let Some(running) = self.session.attempt(attempt) else {
            return Ok(Ok(None));
        };
        if let Err(complaint) = check(running, &request) {
            return Ok(Err(complaint));
        }
        let in_focus = running.focus;
        let mut done = Vec::new();
        self.add_sub_goals(attempt, request.plan(), &mut done)?;
        if request.completes() {
            let Some(index) = in_focus else {
                return Ok(Ok(None));
            };
            self.emit(EventKind::SubGoalCompleted {
                attempt,
                index,
                summary: request.summary.unwrap_or_default(),
            })?;
            done.push("sub-goal completed".to_owned());
        }
        if let Some(focus) = request.focus {
            let running = self.session.attempt(attempt);
            let index = running.and_then(|running| open_sub_goal(running, &focus, None));
            let Some(index) = index else {
                return Ok(Err(no_such_sub_goal(&focus)));
            };
            self.emit(EventKind::SubGoalFocused { attempt, index })?;
            done.push(format!("in focus: {focus}"));
        }
        Ok(Ok(Some(done.join("; "))))
    }

    fn add_sub_goals(
        &mut self,
        attempt: AttemptRef,
        plan: &[String],
        done: &mut Vec<String>,
    ) -> Result<(), IllegalTransition> {
        let before = self
            .session
            .attempt(attempt)
            .map_or(0, |it| it.sub_goals.len() as u32);
        for (index, text) in (before..).zip(plan) {
            self.emit(EventKind::SubGoalAdded {
                attempt,
                index,
                text: text.clone(),
            })?;
        }
        if !plan.is_empty() {
            done.push(format!("sub-goals added: {}", plan.len()));
        }
        Ok(())
    }
}

/// Everything is refused before anything is done.
fn check(running: &Attempt, request: &StepArguments) -> Result<(), Complaint> {
    let plan = request.plan();
    if plan.is_empty() && request.focus.is_none() && !request.completes() {
        return Err(complain("nothing asked: give plan, focus or complete"));
    }
    if plan.iter().any(|text| text.trim().is_empty()) {
        return Err(complain("a sub-goal must not be empty"));
    }
    if plan.iter().any(|text| text.chars().any(char::is_control)) {
        return Err(complain("a sub-goal is one line of text"));
    }
    if running.sub_goals.len() + plan.len() > MAX_SUB_GOALS {
        let message = format!("a step has at most {MAX_SUB_GOALS} sub-goals");
        return Err(complain(message));
    }
    let completed = running.focus.filter(|_| request.completes());
    if request.completes() && completed.is_none() {
        check_end(running, request)?;
    }
    match &request.focus {
        Some(focus) if plan.contains(focus) => Ok(()),
        Some(focus) if open_sub_goal(running, focus, completed).is_some() => Ok(()),
        Some(focus) => Err(no_such_sub_goal(focus)),
        None => Ok(()),
    }
}

/// The step itself is to end.
fn check_end(running: &Attempt, request: &StepArguments) -> Result<(), Complaint> {
    if request.focus.is_some() {
        let message = "no sub-goal is in focus, so complete would end the step: leave focus out, or focus first";
        return Err(complain(message));
    }
    let planned = request.plan().iter().map(String::as_str);
    let open: Vec<&str> = open_sub_goals(running).chain(planned).collect();
    if !open.is_empty() {
        return Err(complain(still_open(&open)));
    }
    if request
        .summary
        .as_deref()
        .unwrap_or_default()
        .trim()
        .is_empty()
    {
        return Err(complain(
            "complete needs a summary: later steps see only that",
        ));
    }
    Ok(())
}

fn no_such_sub_goal(text: &str) -> Complaint {
    complain(format!(
        "there is no open sub-goal '{text}'; read_progress lists them"
    ))
}

fn still_open(open: &[&str]) -> String {
    let names = open.join(", ");
    format!("not completed, because sub-goals are open: {names}; focus and complete each first")
}

fn open_sub_goals(attempt: &Attempt) -> impl Iterator<Item = &str> {
    let goals = attempt.sub_goals.iter();
    let open = goals.filter(|goal| goal.summary.is_none());
    open.map(|goal| goal.text.as_str())
}

/// The first open sub-goal of that text, but for one that is being completed.
fn open_sub_goal(attempt: &Attempt, text: &str, completed: Option<u32>) -> Option<u32> {
    let mut goals = attempt.sub_goals.iter().zip(0..);
    let found = goals.find(|(goal, index)| {
        goal.summary.is_none() && goal.text == text && Some(*index) != completed
    });
    found.map(|(_, index)| index)
}

/// Whether the last reply asked to end the step, and whether it may.
pub(super) enum Ending {
    /// It did not ask, or other calls of it are still open.
    None,
    /// It asked, but something else that it asked for went wrong.
    Refused { call: CallRef, because: String },
    /// It may end.
    Step {
        call: CallRef,
        response: String,
        summary: String,
    },
}

/// A call of `step` that is left open is the wish to end the step: all other state calls are
/// answered at once.
pub(super) fn ending(attempt: &Attempt, name: AttemptRef) -> Ending {
    let Some(turn) = attempt.turns.last() else {
        return Ending::None;
    };
    let is_wish =
        |call: &Call| call.call.name == "step" && matches!(call.status, CallStatus::Requested);
    let Some(index) = turn.calls.iter().position(is_wish) else {
        return Ending::None;
    };
    let others = turn.calls.iter().enumerate().filter(|(at, _)| *at != index);
    let call = CallRef {
        attempt: name,
        tool_turn: attempt.turns.len() as u32 - 1,
        index: index as u32,
    };
    for (_, other) in others {
        match &other.status {
            CallStatus::Finished { is_error: true, .. } => {
                let because = format!(
                    "not completed: '{}' of the same reply failed; complete when that is dealt with",
                    other.call.name
                );
                return Ending::Refused { call, because };
            }
            // The model asked because it needs the answer.
            CallStatus::Finished { .. } if other.call.name == ASK_PERSON => {
                let because = "not completed: a person has answered; complete with that in mind";
                return Ending::Refused {
                    call,
                    because: because.to_owned(),
                };
            }
            CallStatus::Finished { .. } => {}
            _ if is_wish(other) => {
                let because = "not completed: complete was asked for twice in one reply";
                return Ending::Refused {
                    call,
                    because: because.to_owned(),
                };
            }
            _ => return Ending::None,
        }
    }
    let open: Vec<&str> = open_sub_goals(attempt).collect();
    if !open.is_empty() {
        let because = still_open(&open);
        return Ending::Refused { call, because };
    }
    let wish: Result<StepArguments, _> = arguments(&turn.calls[index].call);
    Ending::Step {
        call,
        response: last_text(&attempt.turns),
        summary: wish.ok().and_then(|wish| wish.summary).unwrap_or_default(),
    }
}

fn last_text(turns: &[Turn]) -> String {
    let texts = turns.iter().rev().map(|turn| &turn.text);
    texts
        .into_iter()
        .find(|text| !text.trim().is_empty())
        .cloned()
        .unwrap_or_default()
}
