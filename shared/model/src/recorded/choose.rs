//! Which reply of a recording answers a request.

use super::format::{Exchange, Match, Reply};
use crate::ChatRequest;
use cairn_engine::message::{Message, Role};
use std::sync::Arc;

/// How a step context begins the part about its step.
const CURRENT_STEP: &str = "## Current step";
/// Characters of a message that an error shows.
const SHOWN: usize = 160;

/// The reply to a request, with its exchange.
pub(super) fn reply<'a>(
    exchanges: &'a [Exchange],
    request: &ChatRequest,
) -> Option<(&'a Exchange, &'a Reply)> {
    let messages = request.messages.as_slice();
    let mut best: Option<(usize, (&Exchange, &Reply))> = None;
    for exchange in exchanges {
        let Some(anchor) = anchor(&exchange.when, messages) else {
            continue;
        };
        if best.is_some_and(|(newest, _)| newest >= anchor) {
            continue;
        }
        if let Some(reply) = reply_at(exchange, turn(&messages[anchor..])) {
            best = Some((anchor, (exchange, reply)));
        }
    }
    best.map(|(_, found)| found)
}

/// What was asked, for an error.
pub(super) fn describe(request: &ChatRequest) -> String {
    let messages = request.messages.as_slice();
    let newest = messages
        .iter()
        .rposition(|message| message.role == Role::User);
    let Some(newest) = newest else {
        return "a conversation without a user message".to_owned();
    };
    let text = messages[newest].text();
    let (kind, text) = match current_step(&text) {
        Some(step) => ("the step", step),
        None => ("the message", text.as_str()),
    };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = text.chars().take(SHOWN).collect();
    format!("turn {} of {kind} {shown:?}", turn(&messages[newest..]))
}

/// The message that an exchange counts from, if it is for this conversation at all.
fn anchor(when: &Match, messages: &[Arc<Message>]) -> Option<usize> {
    let holds = |wanted: &Option<String>, text: &str| {
        wanted.as_ref().is_none_or(|wanted| text.contains(wanted))
    };
    let mut systems = messages
        .iter()
        .filter(|message| message.role == Role::System);
    if when.system.is_some() && !systems.any(|message| holds(&when.system, &message.text())) {
        return None;
    }
    let last = messages.last().map(|message| message.text());
    let last = last.unwrap_or_default();
    if !holds(&when.last, &last) {
        return None;
    }
    let fits = |message: &Arc<Message>| {
        if message.role != Role::User {
            return false;
        }
        let text = message.text();
        holds(&when.contains, &text)
            && match (&when.step, current_step(&text)) {
                (Some(wanted), Some(step)) => step.contains(wanted),
                (None, None) => true,
                _ => false,
            }
    };
    messages.iter().rposition(fits)
}

/// The replies given since the anchor.
fn turn(since: &[Arc<Message>]) -> usize {
    let replies = since.iter();
    replies
        .filter(|message| message.role == Role::Assistant)
        .count()
}

fn reply_at(exchange: &Exchange, turn: usize) -> Option<&Reply> {
    let at = turn.checked_sub(exchange.when.turn)?;
    let last = if exchange.repeat {
        exchange.replies.last()
    } else {
        None
    };
    exchange.replies.get(at).or(last)
}

/// The part of a step context about the step itself; none if the message is no step context.
fn current_step(text: &str) -> Option<&str> {
    let begins = |at: &usize| *at == 0 || text.as_bytes()[at - 1] == b'\n';
    let start = text
        .match_indices(CURRENT_STEP)
        .map(|(at, _)| at)
        .find(begins)?;
    let part = &text[start + CURRENT_STEP.len()..];
    Some(part.split_once("\n## ").map_or(part, |(part, _)| part))
}
