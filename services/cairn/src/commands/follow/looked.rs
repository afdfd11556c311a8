//! Whether the owner of a run has found out what the pool has, since the run is followed.

use cairn_proto::event::event::Kind;
use cairn_proto::event::{Event, ShortageKind, WaitReason};
use cairn_proto::orchestrator::Pending;
use std::time::{Duration, Instant};

/// An owner that finds nothing new reports nothing. This is several times as long as it waits for its executors, and
/// longer than it takes until a capability counts as missing.
const LONGEST: Duration = Duration::from_secs(8);

/// Whether the owner has found out what the pool has. Until then, what a run lacked before may be there by now.
#[derive(Debug)]
pub(super) struct Looked {
    since: Instant,
    is_over: bool,
}

impl Looked {
    /// Not yet: the run is followed since this moment.
    pub(super) fn since(now: Instant) -> Self {
        Self {
            since: now,
            is_over: false,
        }
    }

    /// Takes an event of the run that happened since it is followed.
    pub(super) fn take(&mut self, event: &Event) {
        self.is_over |= match &event.kind {
            Some(Kind::CapabilityShort(short)) => short.kind() == ShortageKind::None,
            Some(Kind::RunWaiting(waiting)) => waiting.reason() == WaitReason::Capability,
            _ => false,
        };
    }

    /// Whether the time is over, and nothing was reported. True once.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = !self.is_over && now.saturating_duration_since(self.since) >= LONGEST;
        self.is_over |= is_due;
        is_due
    }

    /// Whether what waits for this question stands still.
    pub(super) fn counts(&self, question: &Pending) -> bool {
        self.is_over || question.reason() != WaitReason::Capability
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_proto::event as wire;

    fn asks(reason: WaitReason) -> Pending {
        Pending {
            reason: reason.into(),
            ..Pending::default()
        }
    }

    fn counts(looked: &Looked) -> bool {
        looked.counts(&asks(WaitReason::Capability))
    }

    #[test]
    fn a_shortage_from_before_counts_once_the_time_is_over() {
        let began = Instant::now();
        let mut looked = Looked::since(began);
        assert!(!counts(&looked) && looked.counts(&asks(WaitReason::Approval)));
        let early = began + LONGEST - Duration::from_millis(1);
        assert!(!looked.is_due(early) && !counts(&looked));
        assert!(looked.is_due(began + LONGEST) && counts(&looked));
        assert!(!looked.is_due(began + LONGEST), "it was due before");
    }

    #[test]
    fn a_shortage_that_is_reported_counts_at_once() {
        let short = |kind: ShortageKind| {
            Kind::CapabilityShort(wire::CapabilityShort {
                kind: kind.into(),
                ..wire::CapabilityShort::default()
            })
        };
        let waiting = |reason: WaitReason| {
            Kind::RunWaiting(wire::RunWaiting {
                reason: reason.into(),
                ..wire::RunWaiting::default()
            })
        };
        for (kind, is_report) in [
            (short(ShortageKind::None), true),
            (short(ShortageKind::Busy), false),
            (waiting(WaitReason::Capability), true),
            (waiting(WaitReason::Approval), false),
        ] {
            let mut looked = Looked::since(Instant::now());
            looked.take(&Event {
                kind: Some(kind.clone()),
                ..Event::default()
            });
            assert_eq!(counts(&looked), is_report, "{kind:?}");
        }
    }
}
