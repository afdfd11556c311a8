//! A turn of a conversation: an answer from session memory, earlier messages and files.

use super::ask::Ask;
use super::desk::{Desk, Reply};
use super::look::{self, brief};
use super::words::has;
use cairn_engine::message::{Message, Role};
use cairn_engine::prompt::memory;
use std::sync::Arc;

/// Most lines of files, and most entries of session memory, in an answer.
const MAX_LINES: usize = 8;

const HELP: &str = "The offline model follows fixed rules: it finds words in files, in session memory \
                    and in this conversation. For a language model, set OPENAI_API_KEY or --model.";

/// A sentence that begins with one of these asks, and answers nothing.
const REQUESTS: &str = "what what's which who where when why how is are do does did can could will would \
                        tell show find list search read look give explain describe summarize compare";

/// The index of the message to answer: the last one in which a person says something.
pub(super) fn question_at(messages: &[Arc<Message>]) -> usize {
    let is_question = |it: &Arc<Message>| it.role == Role::User && !it.said().trim().is_empty();
    messages.iter().rposition(is_question).unwrap_or_default()
}

/// The answer to the message at `at`, or the calls that it needs first.
pub(super) fn answer(
    desk: &Desk<'_>,
    messages: &[Arc<Message>],
    at: usize,
) -> Result<String, Reply> {
    let question = messages.get(at).map(|asked| asked.said());
    let question = question.unwrap_or_default();
    let lower = question.to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).collect();
    let asks = |list: &str| words.iter().any(|word| has(list, word));
    let ask = Ask::parse(&question);
    let mut parts = Vec::new();
    parts.extend(remembered(messages, &ask, asks("memory remember")));
    let is_past = asks("said say asked told earlier before previous previously");
    let speaker = [Role::User, Role::Assistant][usize::from(is_past && asks("you"))];
    parts.extend(recalled(&messages[..at], speaker, &ask, is_past));
    // What a person asks about themselves is not in files, if it was found elsewhere.
    let is_personal = asks("my i me we our you") && !parts.is_empty();
    let names_files = !ask.path.is_empty() || asks("file files folder workspace project");
    let is_about_files = names_files || !ask.terms.is_empty();
    if is_about_files && !is_personal && desk.offers("search_files") {
        let found = look::look(desk, &ask)?;
        let lines = found.notes.lines().filter(|line| line.starts_with("    "));
        let mut lines: Vec<&str> = lines.collect();
        let begin = ["", "I found nothing. "][usize::from(lines.is_empty())];
        let more = left_out(lines.len(), " lines");
        lines.truncate(MAX_LINES);
        let text = format!("{begin}{}\n\n{}{more}", found.summary, lines.join("\n"));
        if !lines.is_empty() || parts.is_empty() {
            parts.push(text.trim_end().to_owned());
        }
    } else if parts.is_empty() && !ask.terms.is_empty() {
        parts.push(format!("I found nothing about {}.", ask.quoted_terms()));
    }
    if parts.is_empty() {
        parts.push(HELP.to_owned());
    }
    Ok(parts.join("\n\n"))
}

/// What follows the lines of a list that is cut.
fn left_out(all: usize, what: &str) -> String {
    match all.saturating_sub(MAX_LINES) {
        0 => String::new(),
        more => format!("\n    and {more} more{what}"),
    }
}

/// The entries of session memory with most of the words, or all if a person asks for them.
fn remembered(messages: &[Arc<Message>], ask: &Ask, asks_for_all: bool) -> Option<String> {
    let is_prompt = |it: &&Arc<Message>| matches!(it.role, Role::System | Role::User);
    let prompts: Vec<String> = messages
        .iter()
        .filter(is_prompt)
        .map(|message| message.text())
        .collect();
    let entries = memory::read(prompts.iter().map(String::as_str))?;
    let texts: Vec<String> = entries
        .iter()
        .map(|(key, value)| format!("{key}: {value}"))
        .collect();
    let best = texts.iter().map(|text| count(ask, text)).max().unwrap_or(0);
    let fits = |text: &&String| count(ask, text) == best && (best > 0 || asks_for_all);
    let fitting: Vec<&String> = texts.iter().filter(fits).collect();
    let lines = fitting.iter().take(MAX_LINES);
    let lines: String = lines.map(|text| format!("\n    {}", brief(text))).collect();
    let more = left_out(fitting.len(), "");
    (!lines.is_empty()).then(|| format!("In session memory:\n{lines}{more}"))
}

/// The newest earlier sentence of a speaker with most of the words. A question answers nothing, unless
/// a person asks about the past.
fn recalled(earlier: &[Arc<Message>], by: Role, ask: &Ask, is_past: bool) -> Option<String> {
    let (mut most, mut best) = (0, None);
    for message in earlier.iter().rev().filter(|message| message.role == by) {
        let text = message.said().replace(". ", ".\n").replace("? ", "?\n");
        for sentence in text.lines().filter(|line| !line.trim().is_empty()) {
            let first = sentence
                .split_whitespace()
                .next()
                .unwrap_or_default()
                .to_lowercase();
            let is_request = sentence.ends_with('?') || has(REQUESTS, &first);
            let is_meant = is_past || (!is_request && !ask.terms.is_empty());
            let score = count(ask, sentence) + usize::from(ask.terms.is_empty());
            if is_meant && score > most && score * 2 >= ask.terms.len() {
                most = score;
                best = Some(brief(sentence));
            }
        }
    }
    let who = ["you", "I"][usize::from(by == Role::Assistant)];
    best.map(|sentence| format!("Earlier {who} said: {sentence}"))
}

/// How many of the words a text has.
fn count(ask: &Ask, text: &str) -> usize {
    let lower = text.to_lowercase();
    let has = |term: &&String| lower.contains(&term.to_lowercase());
    ask.terms.iter().filter(has).count()
}
