//! Lines about what tools came to, and what people approved.

use super::Narrator;
use super::words::PIECE;
use crate::ui::scopes::granted_words;
use crate::ui::tools::covered;
use cairn_proto::event as wire;
use cairn_rpc::text::clip;

/// ` where path = docs/**`; nothing for none.
pub(super) fn conditions(when: &[wire::Condition]) -> String {
    match when.is_empty() {
        true => String::new(),
        false => format!(" where {}", clip(&covered(when), 2 * PIECE)),
    }
}

impl Narrator {
    /// The tool of a call, or the call's number if its request is not known.
    pub fn called_name(&self, call: &wire::CallRef) -> String {
        self.call(call)
    }

    /// How far a call is: `fetch  3 of 10 pages`.
    pub fn progress(&self, progress: &wire::CallProgress) -> String {
        let call = progress.call.unwrap_or_default();
        let far = match progress.total {
            total if total > 0.0 => format!("{} of {total}", progress.progress),
            _ => progress.progress.to_string(),
        };
        let text = format!(
            "{}  {far} {}",
            self.call(&call),
            clip(&progress.message, PIECE)
        );
        text.trim_end().to_owned()
    }
}

/// Why a call was not sent.
pub(super) fn rejudged(event: &wire::CallRejudged) -> String {
    let leads = event
        .resolved
        .iter()
        .map(|link| match link.pattern.is_empty() {
            true => format!("it cannot be decided where {} leads", link.name),
            false => format!("{} leads to {}", link.name, link.pattern),
        });
    let what = match event.resolved.is_empty() {
        true if event.previews => "its file or its tool has changed".to_owned(),
        true => "its tool has changed".to_owned(),
        false => clip(&leads.collect::<Vec<_>>().join(", "), 2 * PIECE),
    };
    format!("was not sent, as {what}; it is judged again")
}

/// What a call would change.
pub(super) fn previewed(event: &wire::CallPreviewed) -> String {
    let Some(preview) = &event.preview else {
        return "would change a file".to_owned();
    };
    let (path, added, removed) = (clip(&preview.path, PIECE), preview.added, preview.removed);
    let protected = match preview.is_protected {
        true => ", which is protected",
        false => "",
    };
    format!("would change {path}{protected} (+{added} -{removed})")
}

/// What a tool asks, in the words of its server.
pub(super) fn asks(event: &wire::InputRequested) -> String {
    let text = event.question.as_ref().map(|it| it.text.as_str());
    format!("asks a person: {}", clip(text.unwrap_or_default(), PIECE))
}

/// What a person approved for the rest of the session.
pub(super) fn granted(event: &wire::ApprovalGranted) -> String {
    let tool = clip(&event.tool, PIECE);
    match &event.scope {
        Some(scope) => {
            let calls = granted_words(&event.tool, scope);
            format!(
                "approval {} covers {}",
                event.grant,
                clip(&calls, 2 * PIECE)
            )
        }
        None => {
            let when = conditions(&event.when);
            let number = event.grant;
            format!("approval {number}: further calls of {tool}{when} need no approval")
        }
    }
}

/// Tools that the model has found.
pub(super) fn found(event: &wire::ToolsFound) -> String {
    format!("tools found: {}", clip(&event.tools.join(", "), PIECE))
}
