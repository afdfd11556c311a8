//! `save_knowledge`: a page that the sessions of the namespace share.

use super::{Answers, CallRejection, Question, StateTool, arguments, invalid};
use crate::event::CallRef;
use crate::limits::{MAX_PAGE_TAG, MAX_PAGE_TAGS, MAX_PAGE_TEXT, MAX_PAGE_TITLE, is_page_line};
use crate::message::ToolCall;
use crate::session::{SAVE_KNOWLEDGE, Session};
use serde::Deserialize;

pub(super) const TOOL: StateTool = StateTool {
    name: SAVE_KNOWLEDGE,
    description: "Saves a page of knowledge that all sessions find with retrieve, also those of other people who work here. Use it for what took work to find out and will be needed again: a decision with its reason, how something is done here, the cause of a fault. Write the page so that it can be understood without this conversation. You cannot change or delete a page: to correct one, name in the text the page that it replaces, and tell the person which page to delete. Look with retrieve first, so that nothing is saved twice. Save no passwords, keys or personal data, and nothing that only matters for the present task.",
    parameters: r#"{"type":"object","properties":{"title":{"type":"string","description":"What the page is about, in one line of at most 256 bytes, with the words that a person would look for."},"text":{"type":"string","description":"The page, in Markdown."},"tags":{"type":"array","items":{"type":"string"},"maxItems":16,"description":"Subjects by which retrieve can narrow a search, such as 'deploy'; none by default."}},"required":["title","text"],"additionalProperties":false}"#,
    answers: Answers::ByOwner(read),
};

/// A page that a model saves. Its id follows from the key of the call, so a call that is answered again saves the same
/// page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaveKnowledge {
    /// What it is about.
    pub title: String,
    /// What it says.
    pub text: String,
    /// Its tags, as the model gave them.
    pub tags: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    title: String,
    text: String,
    tags: Option<Vec<String>>,
}

fn read(_: &Session, _: CallRef, call: &ToolCall) -> Result<Question, CallRejection> {
    let Arguments { title, text, tags } = arguments(call)?;
    let tags = tags.unwrap_or_default();
    if !is_page_line(&title, MAX_PAGE_TITLE) {
        let message = format!("title is one line of 1 to {MAX_PAGE_TITLE} bytes");
        return Err(invalid(message));
    }
    if text.trim().is_empty() || text.len() > MAX_PAGE_TEXT {
        let bytes = text.len();
        let message =
            format!("text has {bytes} bytes; allowed is a text of at most {MAX_PAGE_TEXT} bytes");
        return Err(invalid(message));
    }
    if tags.len() > MAX_PAGE_TAGS || !tags.iter().all(|tag| is_page_line(tag, MAX_PAGE_TAG)) {
        let message =
            format!("tags are at most {MAX_PAGE_TAGS}, each one line of 1 to {MAX_PAGE_TAG} bytes");
        return Err(invalid(message));
    }
    Ok(Question::SaveKnowledge(SaveKnowledge { title, text, tags }))
}
