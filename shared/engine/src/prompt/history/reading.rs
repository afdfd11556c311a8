//! What messages say of goals, and of what was done for them.

use super::goals::Goals;
use super::lines::{Outcome, is_key};
use crate::decide::{Nudge, rest_of_beginning};
use crate::message::{Message, Part, Role, ToolCall, ToolResult};
use crate::prompt::describe;
use crate::text::{brief, cut, one_line};
use serde_json::Value;

/// The tool that manages the goals of a step.
const STEP: &str = "step";

/// Longest goal that a person gave, in characters.
const MOST_OF_REQUEST: usize = 1_024;
/// Longest summary, in characters. Of a reply that ends a turn nothing else is left.
const MOST_OF_SUMMARY: usize = 1_000;
/// Longest tool with arguments, in characters.
const MOST_OF_CALL: usize = 300;
/// Longest kind of a picture or a file, in characters.
const MOST_OF_KIND: usize = 60;

/// A call with its result, if it has one.
type Called<'a> = (&'a ToolCall, Option<&'a ToolResult>);

/// The goals after these messages, which follow the history before.
pub(super) fn goals(before: &str, messages: &[&Message]) -> Goals {
    let mut goals = Goals::after(before, is_step(messages));
    for (message, at) in messages.iter().zip(1..) {
        match message.role {
            Role::User => hear(&mut goals, message),
            Role::Assistant => take_reply(&mut goals, message, &messages[at..]),
            // A client can put one between messages.
            Role::System => note(&mut goals, message),
            // It stands with its call.
            Role::Tool => {}
        }
    }
    goals
}

/// Only a step has that tool, and only to a step Cairn says this.
fn is_step(messages: &[&Message]) -> bool {
    let mut with_next = messages.iter().zip(1..);
    with_next.any(|(message, at)| {
        let has_any = message.calls().any(|call| call.name == STEP);
        let manages = has_any && calls(message, &messages[at..]).iter().any(manages_goals);
        manages || nudge(message) == Some(Nudge::Continue)
    })
}

/// A call that was refused has changed nothing.
fn manages_goals((call, result): &Called<'_>) -> bool {
    call.name == STEP && !result.is_some_and(|result| result.is_error)
}

fn hear(goals: &mut Goals, message: &Message) {
    match (nudge(message), request(message)) {
        (Some(_), _) => goals.resume(),
        (None, Some(text)) => goals.ask(&text),
        (None, None) => {}
    }
}

/// The texts of a message but for notices.
fn said(message: &Message) -> impl Iterator<Item = &str> {
    message.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    })
}

/// What a message of Cairn asks for.
fn nudge(message: &Message) -> Option<Nudge> {
    let mut said = said(message);
    let nudge = said.next().and_then(Nudge::of);
    let is_all = message.role == Role::User && said.next().is_none();
    nudge.filter(|_| is_all)
}

/// What a person asks for; none if the message has notices alone.
fn request(message: &Message) -> Option<String> {
    let texts: Vec<&str> = said(message).collect();
    let text = one_line(&texts.join("\n"), MOST_OF_REQUEST);
    if !text.is_empty() {
        return Some(text);
    }
    message.parts.iter().find_map(|part| match part {
        Part::Media(media) => Some(format!("({})", brief(&media.mime, MOST_OF_KIND))),
        _ => None,
    })
}

/// `rest` are the messages after the reply.
fn take_reply(goals: &mut Goals, reply: &Message, rest: &[&Message]) {
    let calls = calls(reply, rest);
    if calls.is_empty() && !goals.is_step() && ends_turn(rest) {
        return goals.complete(&one_line(&reply.said(), MOST_OF_SUMMARY));
    }
    note(goals, reply);
    // Calls of `step` count before the other calls of their reply.
    for (call, _) in calls.iter().filter(|called| manages_goals(called)) {
        manage(goals, call);
    }
    for called in calls.iter().filter(|called| !manages_goals(called)) {
        show(goals, called);
    }
}

fn note(goals: &mut Goals, message: &Message) {
    let text = describe::text(&message.said());
    if !text.is_empty() {
        goals.lines().note(1, &text);
    }
}

/// A reply without calls ends a turn, unless Cairn asks to continue, or the model continues by itself.
fn ends_turn(rest: &[&Message]) -> bool {
    let next = rest.first();
    next.is_none_or(|next| next.role == Role::User && nudge(next).is_none())
}

/// The calls of a reply. Their results stand before the next reply; ids may repeat.
fn calls<'a>(reply: &'a Message, rest: &[&'a Message]) -> Vec<Called<'a>> {
    let messages = rest.iter().copied();
    let answers = messages.take_while(|message| message.role != Role::Assistant);
    let mut results: Vec<&ToolResult> = answers.flat_map(|message| message.results()).collect();
    let with_result = |call: &'a ToolCall| {
        let at = results.iter().position(|result| result.call_id == call.id);
        (call, at.map(|at| results.remove(at)))
    };
    reply.calls().map(with_result).collect()
}

/// A call of `step` changes the goals, in the order in which the engine does.
fn manage(goals: &mut Goals, call: &ToolCall) {
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    for text in texts(&arguments["drop"]) {
        goals.drop_goal(&describe::whole(text));
    }
    for text in texts(&arguments["plan"]) {
        goals.plan(&describe::whole(text));
    }
    if arguments["complete"] == Value::Bool(true) {
        let summary = arguments["summary"].as_str().unwrap_or_default();
        goals.complete(&one_line(summary, MOST_OF_SUMMARY));
    }
    if let Some(text) = arguments["focus"].as_str() {
        goals.focus(&describe::whole(text));
    }
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str)
}

fn show(goals: &mut Goals, (call, result): &Called<'_>) {
    if !is_key(&call.name) {
        return;
    }
    let line = describe::call(&call.name, &call.arguments);
    let line = cut(&line, MOST_OF_CALL);
    let Some(result) = result else {
        return goals.lines().call(1, &line, Outcome::Unknown);
    };
    let brief = describe_result(&result.text);
    let outcome = match result.is_error {
        true => Outcome::Failed(&brief),
        false => Outcome::Known(&brief),
    };
    goals.lines().call(1, &line, outcome);
}

fn describe_result(text: &str) -> String {
    let rest = rest_of_beginning(text).unwrap_or_default();
    match describe::result(text, &rest) {
        brief if brief.is_empty() => "no output".to_owned(),
        brief => brief,
    }
}
