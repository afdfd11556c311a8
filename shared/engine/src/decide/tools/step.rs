//! `step`: the parts of a step, and its end.

use super::ask_person::ASK_PERSON;
use super::{Answers, CallRejection, StateTool, arguments, invalid};
use crate::conversation::Entry;
use crate::decide::Decision;
use crate::escape::breaks_line;
use crate::event::{
    AttemptRef, CallRef, SubGoalAdded, SubGoalCompleted, SubGoalDropped, SubGoalFocused,
};
use crate::limits::MAX_SUB_GOALS;
use crate::message::{Role, ToolCall};
use crate::session::{Attempt, Call, CallStatus};
use crate::transitions::Applied;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeSet;

/// Its name.
pub(in crate::decide) const STEP: &str = "step";

pub(super) const TOOL: StateTool = StateTool {
    name: STEP,
    description: "Manages this step. plan adds sub-goals, drop gives up open ones, focus turns to one of them by its text, complete ends the sub-goal in focus, or, with none open, this step. In one call, complete comes before focus. A text of plan that is there already, open or completed, is not added again. Give a summary with complete: of this step, later ones see only the last summary and your scratchpad notes.",
    parameters: r#"{"type":"object","properties":{"plan":{"type":"array","items":{"type":"string"},"description":"Sub-goals to add, one line each."},"drop":{"type":"array","items":{"type":"string"},"description":"Texts of open sub-goals that are not needed any more."},"focus":{"type":"string","description":"Text of the sub-goal to turn to."},"complete":{"type":"boolean","description":"The sub-goal in focus, or the step, is done."},"summary":{"type":"string","description":"What was found or done; goes with complete."}},"additionalProperties":false}"#,
    answers: Answers::InTransition(manage),
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepArguments {
    #[serde(default)]
    plan: Option<Vec<String>>,
    #[serde(default)]
    drop: Option<Vec<String>>,
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

    fn dropped(&self) -> &[String] {
        self.drop.as_deref().unwrap_or_default()
    }

    fn completes(&self) -> bool {
        self.complete == Some(true)
    }
}

fn manage(
    decision: &mut Decision<'_>,
    name: CallRef,
    call: &ToolCall,
) -> Result<Option<String>, CallRejection> {
    let attempt = name.attempt;
    let request: StepArguments = arguments(call)?;
    let Some(running) = decision.session.attempt(attempt) else {
        return Ok(None);
    };
    check(running, &request)?;
    let in_focus = running.focus;
    let mut done = Vec::new();
    decision.drop_sub_goals(attempt, request.dropped(), &mut done)?;
    decision.add_sub_goals(attempt, request.plan(), &mut done)?;
    if request.completes() {
        let Some(index) = in_focus else {
            // The step ends once the other calls of the reply have ended.
            return Ok(None);
        };
        decision.emit(SubGoalCompleted {
            attempt,
            index,
            summary: request.summary.unwrap_or_default(),
        })?;
        done.push("sub-goal completed".to_owned());
    }
    let focus = request.focus.as_deref().and_then(|focus| {
        let running = decision.session.attempt(attempt)?;
        Some((focus, open_sub_goal(running, focus, None)?))
    });
    if let Some((focus, index)) = focus {
        decision.emit(SubGoalFocused { attempt, index })?;
        done.push(format!("in focus: {focus}"));
    }
    Ok(Some(done.join("; ")))
}

impl Decision<'_> {
    fn drop_sub_goals(
        &mut self,
        attempt: AttemptRef,
        texts: &[String],
        done: &mut Vec<String>,
    ) -> Applied {
        for text in texts {
            let running = self.session.attempt(attempt);
            // A text that is given twice is dropped once.
            let index = running.and_then(|running| open_sub_goal(running, text, None));
            if let Some(index) = index {
                self.emit(SubGoalDropped { attempt, index })?;
                done.push(format!("dropped: {text}"));
            }
        }
        Ok(())
    }

    /// A plan may be given again, whole or in part: a text that is there already is not added.
    fn add_sub_goals(
        &mut self,
        attempt: AttemptRef,
        plan: &[String],
        done: &mut Vec<String>,
    ) -> Applied {
        let mut added = 0;
        for text in plan {
            let Some(running) = self.session.attempt(attempt) else {
                break;
            };
            if is_planned(running, text) {
                continue;
            }
            self.emit(SubGoalAdded {
                attempt,
                index: running.sub_goals.len() as u32,
                text: text.clone(),
            })?;
            added += 1;
        }
        if !plan.is_empty() {
            done.push(format!("sub-goals added: {added}"));
        }
        if added < plan.len() {
            done.push(format!("there already: {}", plan.len() - added));
        }
        Ok(())
    }
}

/// Everything is refused before anything is done.
fn check(running: &Attempt, request: &StepArguments) -> Result<(), CallRejection> {
    let (plan, dropped) = (request.plan(), request.dropped());
    let is_empty = plan.is_empty() && dropped.is_empty() && request.focus.is_none();
    if is_empty && !request.completes() {
        return Err(invalid("nothing asked: give plan, drop, focus or complete"));
    }
    check_plan(running, plan)?;
    let completed = running.focus.filter(|_| request.completes());
    for text in dropped {
        if plan.contains(text) {
            let message = format!("'{text}' is in plan and in drop: give it in one of them");
            return Err(invalid(message));
        }
        if open_sub_goal(running, text, completed).is_none() {
            return Err(no_such_sub_goal(running, text));
        }
    }
    if request.completes() && completed.is_none() {
        check_end(running, request)?;
    }
    let Some(focus) = &request.focus else {
        return Ok(());
    };
    let is_open = open_sub_goal(running, focus, completed).is_some() && !dropped.contains(focus);
    let is_new = plan.contains(focus) && !is_planned(running, focus);
    match is_open || is_new {
        true => Ok(()),
        false => Err(no_such_sub_goal(running, focus)),
    }
}

fn check_plan(running: &Attempt, plan: &[String]) -> Result<(), CallRejection> {
    if plan.iter().any(|text| text.trim().is_empty()) {
        return Err(invalid("a sub-goal must not be empty"));
    }
    let is_special = |c: char| c.is_control() || breaks_line(c);
    if plan.iter().any(|text| text.chars().any(is_special)) {
        return Err(invalid("a sub-goal is one line of text"));
    }
    let new: BTreeSet<&String> = plan
        .iter()
        .filter(|text| !is_planned(running, text))
        .collect();
    if running.sub_goals.len() + new.len() > MAX_SUB_GOALS {
        let message = format!("a step has at most {MAX_SUB_GOALS} sub-goals");
        return Err(invalid(message));
    }
    Ok(())
}

/// The step itself is to end.
fn check_end(running: &Attempt, request: &StepArguments) -> Result<(), CallRejection> {
    if let Some(focus) = &request.focus {
        let first = json!({"focus": focus});
        let message = format!(
            "no sub-goal is in focus, and in one call, complete comes before focus: send {first} first, then \
             complete in another call; to end the step, leave focus out"
        );
        return Err(invalid(message));
    }
    let planned = request.plan().iter().map(String::as_str);
    let planned = planned.filter(|text| !is_planned(running, text));
    let is_left = |text: &&str| !request.dropped().iter().any(|dropped| dropped == text);
    let open = open_sub_goals(running).filter(is_left).chain(planned);
    let open: Vec<&str> = open.collect();
    if !open.is_empty() {
        return Err(invalid(still_open(&open)));
    }
    if request
        .summary
        .as_deref()
        .unwrap_or_default()
        .trim()
        .is_empty()
    {
        return Err(invalid(
            "complete needs a summary: later steps see only that and your scratchpad notes",
        ));
    }
    Ok(())
}

fn no_such_sub_goal(running: &Attempt, text: &str) -> CallRejection {
    let mut goals = running.sub_goals.iter();
    let is_completed = goals.any(|goal| goal.text == text && goal.summary.is_some());
    invalid(match is_completed {
        true => format!("sub-goal '{text}' is completed; to do it again, plan it in other words"),
        false => format!("there is no open sub-goal '{text}'; read_progress lists them"),
    })
}

fn still_open(open: &[&str]) -> String {
    let names = open.join(", ");
    format!(
        "nothing of this call was done, because sub-goals are open: {names}; drop each, or focus it in one \
         call and complete it in the next, and plan none in the call that completes the step"
    )
}

fn open_sub_goals(attempt: &Attempt) -> impl Iterator<Item = &str> {
    let open = attempt.sub_goals.iter().filter(|goal| goal.is_open());
    open.map(|goal| goal.text.as_str())
}

/// A sub-goal of that text is open or completed. One that was dropped can be planned again.
fn is_planned(attempt: &Attempt, text: &str) -> bool {
    let mut goals = attempt.sub_goals.iter();
    goals.any(|goal| !goal.is_dropped && goal.text == text)
}

/// The first open sub-goal of that text, but for one that is being completed.
fn open_sub_goal(attempt: &Attempt, text: &str, completed: Option<u32>) -> Option<u32> {
    let mut goals = attempt.sub_goals.iter().zip(0..);
    let found = goals
        .find(|(goal, index)| goal.is_open() && goal.text == text && Some(*index) != completed);
    found.map(|(_, index)| index)
}

/// Whether the last reply asked to end the step, and whether it may.
pub(in crate::decide) enum Ending {
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

/// A call of `step` that is left open asks to end the step.
pub(in crate::decide) fn ending(attempt: &Attempt, name: AttemptRef) -> Ending {
    let asks_to_complete =
        |call: &Call| call.call.name == STEP && matches!(call.status, CallStatus::Requested);
    let Some(index) = attempt.calls.iter().position(asks_to_complete) else {
        return Ending::None;
    };
    let others = attempt
        .calls
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != index);
    let call = CallRef {
        attempt: name,
        tool_turn: attempt.tool_turns.saturating_sub(1),
        index: index as u32,
    };
    for (_, other) in others {
        match &other.status {
            // Hooks may make an error of its result.
            CallStatus::Finished { .. } if !other.is_finished() => return Ending::None,
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
            _ if asks_to_complete(other) => {
                let because = "not completed: complete was asked for twice in one reply";
                return Ending::Refused {
                    call,
                    because: because.to_owned(),
                };
            }
            _ => return Ending::None,
        }
    }
    if let Some(because) = not_yet(attempt) {
        return Ending::Refused { call, because };
    }
    let asked: Result<StepArguments, _> = arguments(&attempt.calls[index].call);
    Ending::Step {
        call,
        response: last_text(&attempt.conversation.behind),
        summary: asked
            .ok()
            .and_then(|asked| asked.summary)
            .unwrap_or_default(),
    }
}

/// The newest text of the model that is not empty. A history view is none.
fn last_text(said: &[Entry]) -> String {
    let said = said.iter().filter(|entry| entry.compaction.is_none());
    let messages = said.rev().map(|entry| &entry.message);
    let replies = messages.filter(|message| message.role == Role::Assistant);
    let mut texts = replies.map(|message| message.text());
    texts
        .find(|text| !text.trim().is_empty())
        .unwrap_or_default()
}

/// What the attempt has to do before its step ends.
fn not_yet(attempt: &Attempt) -> Option<String> {
    if attempt.has_unread() {
        let because = "not completed: a person has said something, which follows; complete with that in \
                       mind";
        return Some(because.to_owned());
    }
    let open: Vec<&str> = open_sub_goals(attempt).collect();
    (!open.is_empty()).then(|| still_open(&open))
}
