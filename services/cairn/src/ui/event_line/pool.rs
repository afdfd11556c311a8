//! Lines about the pool: what an attempt lacks, and the resources that carry it out.

use super::words::PIECE;
use super::{EventLine, Mark, line, step_of};
use crate::ui::pool::{LONG_WAIT_MS, counts, helps};
use crate::ui::time::span;
use cairn_proto::event::ShortageKind;
use cairn_proto::event::event::Kind;
use cairn_rpc::text::clip;

pub(super) fn pool_line(kind: &Kind) -> EventLine {
    match kind {
        Kind::AttemptPlaced(e) => {
            let resources: Vec<_> = e.resources.iter().map(|id| clip(id, PIECE)).collect();
            let waited = match e.waited_ms {
                ..LONG_WAIT_MS => String::new(),
                ms => format!(" after {}", span(ms)),
            };
            let (number, resources) = (step_of(e.attempt.as_ref()), resources.join(", "));
            let text = format!("step {number}: on {resources}{waited}");
            line(Mark::Plain, text)
        }
        Kind::CapabilityShort(e) => {
            let number = step_of(e.attempt.as_ref());
            let mut text = format!("STOP: step {number} lacks {}", counts(&e.missing, e.kind()));
            if e.kind() == ShortageKind::None {
                for help in helps(&e.missing) {
                    text.push_str("; ");
                    text.push_str(&help);
                }
            }
            line(Mark::Asks, text)
        }
        Kind::CapabilityFound(e) => {
            let number = step_of(e.attempt.as_ref());
            let text = format!("step {number}: a resource has what it waits for");
            line(Mark::Plain, text)
        }
        _ => line(Mark::Plain, ""),
    }
}

/// Whether a placement is shown where only the main events are.
pub(super) fn is_brief(waited_ms: u64) -> bool {
    waited_ms >= LONG_WAIT_MS
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::event as wire;

    const AT: wire::AttemptRef = wire::AttemptRef {
        run: 1,
        step: 2,
        attempt: 1,
    };

    fn placed(waited_ms: u64) -> String {
        let placed = wire::AttemptPlaced {
            attempt: Some(AT),
            resources: vec!["general".to_owned(), "gpu-1".to_owned()],
            waited_ms,
        };
        pool_line(&Kind::AttemptPlaced(placed)).text
    }

    #[test]
    fn a_wait_is_told_if_it_was_long() {
        assert_eq!(placed(20), "step 2: on general, gpu-1");
        assert_eq!(placed(3_200), "step 2: on general, gpu-1 after 3.2 s");
        assert!(is_brief(3_200) && !is_brief(20));
    }

    #[test]
    fn stop_says_what_is_short() {
        let short = wire::CapabilityShort {
            attempt: Some(AT),
            missing: vec![wire::MissingCapability {
                capability: "web_search".to_owned(),
                total: 1,
                ..wire::MissingCapability::default()
            }],
            kind: ShortageKind::Busy.into(),
        };
        let stop = pool_line(&Kind::CapabilityShort(short));
        let expected = "? STOP: step 2 lacks web_search: 0/1 busy".to_owned();
        assert_eq!(stop.to_string(), expected);
    }
}
