//! Lines about compactions of conversations.

use super::words::{PIECE, after_colon};
use super::{EventLine, Mark, line, step_of};
use crate::ui::compaction::{became, request_size, why_full};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_rpc::text::clip;

pub(super) fn compaction_line(kind: &Kind) -> EventLine {
    match kind {
        Kind::CompactionRequested(e) => {
            let (number, what) = (step_of(e.attempt.as_ref()), after_colon(&e.keep_in_mind));
            let text = format!("step {number}: the model asks for a compaction{what}");
            line(Mark::Plain, text)
        }
        Kind::SummaryAsked(e) => {
            let number = step_of(e.attempt.as_ref());
            let again = match e.again {
                true => " again, because the answer was lost",
                false => "",
            };
            let text =
                format!("step {number}: the model is asked for a summary of older messages{again}");
            line(Mark::Began, text)
        }
        Kind::ContextCompacted(e) => compacted_line(e),
        Kind::ContextFull(e) => {
            let number = step_of(e.attempt.as_ref());
            let why = why_full(e.cause(), e.failure.as_ref());
            let size = request_size(e.tokens, e.window);
            // A summary may fail that was asked for while the request still fits.
            let what = match e.cause() {
                wire::FullCause::DoesNotShrink | wire::FullCause::NoSummary => {
                    "older messages stay"
                }
                _ => "the next request does not fit",
            };
            let text = format!("step {number}: {what} ({size}); {why}");
            line(Mark::Bad, text)
        }
        _ => line(Mark::Plain, ""),
    }
}

fn compacted_line(event: &wire::ContextCompacted) -> EventLine {
    let whose = match event.context.as_str() {
        "" => format!("step {}", step_of(event.attempt.as_ref())),
        name => format!("context {}", clip(name, PIECE)),
    };
    let (before, after) = (event.tokens_before, event.tokens_after);
    let what = became(event.kind(), event.replaced, before, after);
    line(Mark::Plain, format!("{whose}: {what}"))
}
