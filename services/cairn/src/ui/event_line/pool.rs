//! Lines about who carries out an attempt, and what the pool lacks for one.

use super::words::PIECE;
use super::{EventLine, Mark, line, step_of};
use crate::ui::shortage::lacks;
use crate::ui::time::span;
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_rpc::text::clip;

pub(super) fn pool_line(kind: &Kind) -> EventLine {
    match kind {
        Kind::AttemptPlaced(e) => {
            let number = step_of(e.attempt.as_ref());
            let resources: Vec<String> = e.resources.iter().map(|id| clip(id, PIECE)).collect();
            let waited = match e.waited_ms {
                0 => String::new(),
                waited => format!(" after {}", span(waited)),
            };
            let by = resources.join(", ");
            let text = format!("step {number} is carried out by {by}{waited}");
            line(Mark::Plain, text)
        }
        Kind::CapabilityShort(e) => {
            let number = step_of(e.attempt.as_ref());
            let mark = match e.kind() {
                wire::ShortageKind::None => Mark::Asks,
                wire::ShortageKind::Busy | wire::ShortageKind::Unspecified => Mark::Plain,
            };
            let lacked = lacks(&e.missing, e.kind());
            line(mark, format!("STOP: step {number} lacks {lacked}"))
        }
        Kind::CapabilityFound(e) => {
            let number = step_of(e.attempt.as_ref());
            line(
                Mark::Began,
                format!("step {number}: the pool has what it lacked"),
            )
        }
        _ => line(Mark::Plain, ""),
    }
}
