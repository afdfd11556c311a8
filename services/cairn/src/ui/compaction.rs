//! Compactions of conversations, and requests that do not fit, in words.

use super::event_line::failure_text;
use cairn_engine::text::counted;
use cairn_proto::event::{CompactionKind, Failure, FullCause};
use cairn_views::figures::grouped;

/// What came of older messages: `34 messages became a summary (about 5,600 → 1,200 tokens)`. The tokens are those of
/// the next request; 0 before it if its context had too many bytes.
pub fn became(kind: CompactionKind, replaced: u32, before: u64, after: u64) -> String {
    let what = match kind {
        CompactionKind::History => "a history view",
        CompactionKind::Summary => "a summary",
        CompactionKind::Unspecified => "one message",
    };
    let tokens = match before {
        0 => "the context had too many bytes".to_owned(),
        before => format!("about {} → {} tokens", grouped(before), grouped(after)),
    };
    format!("{} became {what} ({tokens})", counted(replaced, "message"))
}

/// What a message stands for; none if it stands as it was said.
pub fn stands_for(kind: CompactionKind) -> Option<&'static str> {
    match kind {
        CompactionKind::History => Some("history view of older messages"),
        CompactionKind::Summary => Some("summary of older messages"),
        CompactionKind::Unspecified => None,
    }
}

/// How long a request is that does not fit: `about 9,100 tokens, for a window of 8,000`.
pub fn request_size(tokens: u64, window: u64) -> String {
    let tokens = grouped(tokens);
    match window {
        0 => format!("about {tokens} tokens"),
        window => format!("about {tokens} tokens, for a window of {}", grouped(window)),
    }
}

/// Why no compaction helps, on one line, escaped.
pub fn why_full(cause: FullCause, failure: Option<&Failure>) -> String {
    match cause {
        FullCause::NothingToCompact => {
            "no message that is older than the last tool turn can give way".to_owned()
        }
        FullCause::DoesNotShrink => {
            "the summary has no fewer tokens than the messages that it would replace".to_owned()
        }
        FullCause::NoSummary => match failure {
            Some(failure) => {
                let why = failure_text(Some(failure));
                format!("the model wrote no summary: {why}")
            }
            None => "the model wrote no summary".to_owned(),
        },
        FullCause::Unspecified => "no compaction helps".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compaction_is_said_in_messages_and_tokens() {
        use CompactionKind::{History, Summary};
        let said = became(Summary, 34, 5_600, 1_200);
        assert_eq!(
            said,
            "34 messages became a summary (about 5,600 → 1,200 tokens)"
        );
        let said = became(History, 1, 0, 0);
        assert_eq!(
            said,
            "1 message became a history view (the context had too many bytes)"
        );
    }

    #[test]
    fn a_full_context_says_how_long_it_is_and_why_nothing_helps() {
        assert_eq!(request_size(9_100, 0), "about 9,100 tokens");
        let known = request_size(9_100, 8_000);
        assert_eq!(known, "about 9,100 tokens, for a window of 8,000");
        let failure = Failure {
            message: "gone\u{1b}".to_owned(),
            ..Failure::default()
        };
        let why = why_full(FullCause::NoSummary, Some(&failure));
        assert_eq!(why, "the model wrote no summary: gone\\u{1b}");
        // Only of that cause.
        let why = why_full(FullCause::DoesNotShrink, Some(&failure));
        assert!(!why.contains("gone"), "{why}");
    }
}
