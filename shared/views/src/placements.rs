//! Which resources carried out the steps of a run, how long the steps waited for them, and for what.

use cairn_engine::event::{AttemptRef, Event, EventKind};
use cairn_engine::session::StepNo;
use std::collections::BTreeMap;

/// How a step got its resources. Of all its attempts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// Ids of the resources that carry it out, or did last: the executor first. Empty before it has any.
    pub resources: Vec<String>,
    /// Milliseconds that it waited for resources, without a wait that has not ended.
    pub waited_ms: u64,
    /// What it lacked at any time, as a plan names it, such as `web_search>=5`, in the order in which it was
    /// lacked first. A tool is named as `tool NAME`.
    pub waited_for: Vec<String>,
    /// What it lacks now, and since when, in milliseconds since 1970; none if it lacks nothing.
    pub lacks: Option<Lack>,
}

/// What a step lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// As in [`Placement::waited_for`].
    pub what: Vec<String>,
    /// When it was noticed, in milliseconds since 1970.
    pub since: u64,
}

/// The steps of all runs of a session. Folded from its events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placements(BTreeMap<(u32, StepNo), Placement>);

impl Placements {
    /// Of all these events.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut placements = Self::default();
        events.into_iter().for_each(|event| placements.apply(event));
        placements
    }

    /// Of one step; none if it has neither had nor lacked a resource.
    pub fn get(&self, run: u32, step: StepNo) -> Option<&Placement> {
        self.0.get(&(run, step))
    }

    /// Takes the next event.
    pub fn apply(&mut self, event: &Event) {
        match &event.kind {
            EventKind::AttemptPlaced(it) => {
                let placement = self.of_attempt(it.attempt);
                let lacked = placement.end(event.at);
                // A wait in which this process has changed is longer than the new one knows.
                let waited = it.waited_ms.max(lacked);
                placement.waited_ms = placement.waited_ms.saturating_add(waited);
                placement.resources.clone_from(&it.resources);
            }
            EventKind::CapabilityShort(it) => {
                let what = it.missing.iter().map(ToString::to_string);
                self.of_attempt(it.attempt).lack(what.collect(), event.at);
            }
            EventKind::StepCompleted(it) => self.over(it.attempt, event.at),
            EventKind::StepFailed(it) => self.over(it.attempt, event.at),
            EventKind::StepSkipped(it) => {
                if let Some(placement) = self.0.get_mut(&(it.run, it.step)) {
                    placement.give_up(event.at);
                }
            }
            EventKind::RunCancelled(it) => self.run_over(it.run, event.at),
            _ => {}
        }
    }

    fn of_attempt(&mut self, attempt: AttemptRef) -> &mut Placement {
        self.0.entry((attempt.run, attempt.step)).or_default()
    }

    fn over(&mut self, attempt: AttemptRef, at: u64) {
        if let Some(placement) = self.0.get_mut(&(attempt.run, attempt.step)) {
            placement.give_up(at);
        }
    }

    fn run_over(&mut self, run: u32, at: u64) {
        let steps = self.0.iter_mut();
        let steps = steps.filter(|((of, _), _)| *of == run);
        steps.for_each(|(_, placement)| placement.give_up(at));
    }
}

impl Placement {
    /// It lacks these from now on. What it lacked before, it has lacked since then.
    fn lack(&mut self, what: Vec<String>, at: u64) {
        for name in &what {
            if !self.waited_for.contains(name) {
                self.waited_for.push(name.clone());
            }
        }
        let since = self.lacks.as_ref().map_or(at, |lack| lack.since);
        self.lacks = Some(Lack { what, since });
    }

    /// Milliseconds since it lacks something, which it does not any more.
    fn end(&mut self, at: u64) -> u64 {
        let lack = self.lacks.take();
        lack.map_or(0, |lack| at.saturating_sub(lack.since))
    }

    /// It ends without what it lacked.
    fn give_up(&mut self, at: u64) {
        let lacked = self.end(at);
        self.waited_ms = self.waited_ms.saturating_add(lacked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_engine::event::{AttemptPlaced, CapabilityFound, CapabilityShort, ShortageKind};
    use cairn_engine::pool::Missing;

    fn attempt() -> AttemptRef {
        AttemptRef {
            run: 1,
            step: StepNo::new(2),
            attempt: 1,
        }
    }

    fn event(at: u64, kind: impl Into<EventKind>) -> Event {
        Event {
            at,
            answers: 0,
            principal: None,
            kind: kind.into(),
        }
    }

    fn short(at: u64, capability: &str, kind: ShortageKind) -> Event {
        let missing = Missing {
            capability: capability.to_owned(),
            level: 5,
            ..Missing::default()
        };
        event(
            at,
            CapabilityShort {
                attempt: attempt(),
                missing: vec![missing],
                kind,
            },
        )
    }

    fn placed(at: u64, resource: &str, waited_ms: u64) -> Event {
        event(
            at,
            AttemptPlaced {
                attempt: attempt(),
                resources: vec![resource.to_owned()],
                waited_ms,
            },
        )
    }

    fn placement(events: &[Event]) -> Placement {
        let placements = Placements::of(events);
        let found = placements.get(1, StepNo::new(2));
        found.expect("a placement").clone()
    }

    #[test]
    fn a_step_that_waits_says_since_when_and_for_what() {
        let busy = short(1_000, "web_search", ShortageKind::Busy);
        let none = short(5_000, "web_search", ShortageKind::None);
        let waits = placement(&[busy, none]);
        let lack = waits.lacks.expect("a lack");
        assert_eq!(
            (lack.what, lack.since),
            (vec!["web_search>=5".to_owned()], 1_000)
        );
        assert_eq!((waits.waited_ms, waits.resources.len()), (0, 0));
    }

    #[test]
    fn a_wait_through_another_process_counts_from_its_beginning() {
        let found = event(60_000, CapabilityFound { attempt: attempt() });
        let events = [
            short(1_000, "web_search", ShortageKind::None),
            found,
            placed(61_000, "research", 800),
            placed(90_000, "general", 20),
        ];
        let done = placement(&events);
        assert_eq!(done.waited_ms, 60_020);
        assert_eq!(done.resources, ["general"]);
        assert_eq!(done.waited_for, ["web_search>=5"]);
        assert_eq!(done.lacks, None);
    }
}
