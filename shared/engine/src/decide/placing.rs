//! What follows when an attempt gets its resources, or the pool lacks some.

use super::Decision;
use crate::conversation::LayerKind;
use crate::event::{
    AttemptPlaced, AttemptRef, CapabilityFound, CapabilityShort, ContextChanged, ShortageKind,
};
use crate::pool::Missing;
use crate::session::{Attempt, may_become};
use crate::transitions::Applied;

impl Decision<'_> {
    /// Resources carry out the attempt from now on. Before its first reply, its model gets the layer of the pool anew if
    /// that names other resources, or was written before a wait.
    pub(super) fn placed(
        &mut self,
        attempt: AttemptRef,
        resources: &[String],
        waited_ms: u64,
    ) -> Applied {
        let running = self.session.attempt(attempt);
        // It asked for a slot before it was known that no resource has what it needs.
        if running.is_none_or(Attempt::lacks_capability) {
            return Ok(());
        }
        self.emit(AttemptPlaced {
            attempt,
            resources: resources.to_vec(),
            waited_ms,
        })?;
        self.renew_pool_layer(attempt, resources)
    }

    /// Refuses the open calls of tools that the executor may not use. None of them has been sent: an attempt gets
    /// resources only after what was sent before has ended or is in doubt.
    pub(super) fn refuse_unusable(&mut self, attempt: AttemptRef, resources: &[String]) -> Applied {
        let Some(executor) = resources.first() else {
            return Ok(());
        };
        let running = self.session.attempt(attempt);
        let Some(running) = running.filter(|it| !it.is_gated() && !it.lacks_capability()) else {
            return Ok(());
        };
        let open = running.unsent_calls(attempt);
        let refused = open.filter(|(_, call)| self.may_not_use(executor, attempt, &call.call.name));
        let refused: Vec<_> = refused
            .map(|(name, call)| (name, call.call.name.clone()))
            .collect();
        if refused.is_empty() {
            return Ok(());
        }
        for (call, tool) in refused {
            self.finish_unusable(call, executor, &tool)?;
        }
        self.continue_after_owner(attempt)
    }

    /// Writes the layer of the pool anew if it is outdated and its text differs.
    fn renew_pool_layer(&mut self, attempt: AttemptRef, resources: &[String]) -> Applied {
        if !self.session.has_outdated_pool(attempt, resources) {
            return Ok(());
        }
        let Some(now) = self.step_context(attempt, resources) else {
            return Ok(());
        };
        let running = self.session.attempt(attempt);
        let written = running.and_then(|it| it.written(&it.conversation, LayerKind::Pool));
        if written.is_some_and(|layer| *layer.text == *now.text()) {
            return Ok(());
        }
        let ops = vec![self.pool_layer(&now)];
        self.emit(ContextChanged::of_attempt(attempt, ops))
    }

    /// The pool lacks what the attempt needs. It is written once for each wait, and once more if what was busy is gone.
    pub(super) fn short(
        &mut self,
        attempt: AttemptRef,
        mut missing: Vec<Missing>,
        is_none: bool,
    ) -> Applied {
        let kind = match is_none {
            true => ShortageKind::None,
            false => ShortageKind::Busy,
        };
        let Some(running) = self.session.attempt(attempt) else {
            return Ok(());
        };
        let known = running.short.as_ref().map(|short| short.kind);
        if missing.is_empty() || !may_become(known, kind) {
            return Ok(());
        }
        missing.sort_by(|one, other| one.capability.cmp(&other.capability));
        self.emit(CapabilityShort {
            attempt,
            missing,
            kind,
        })?;
        self.advance(attempt.run)
    }

    /// Resources have what these attempts lack. Those that lack nothing are passed over.
    pub(super) fn found(&mut self, attempts: Vec<AttemptRef>) -> Applied {
        for attempt in attempts {
            let running = self.session.attempt(attempt);
            if running.is_some_and(Attempt::lacks_capability) {
                self.emit(CapabilityFound { attempt })?;
                self.continue_attempt(attempt)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::testing::Sent;
    use crate::decide::Input;
    use crate::event::{EventKind, WaitReason};
    use crate::session::RunStatus;

    fn attempt(sent: &Sent) -> AttemptRef {
        let mut running = sent.run().running_attempts();
        let (attempt, ..) = running.next().expect("a step at work");
        attempt
    }

    fn lacks(attempt: AttemptRef, is_none: bool) -> Input {
        let missing = ["web_search", "gpu"].map(|name| Missing {
            capability: name.to_owned(),
            ..Missing::default()
        });
        Input::Short {
            attempt,
            missing: missing.into(),
            is_none,
        }
    }

    fn placed(attempt: AttemptRef) -> Input {
        Input::Placed {
            attempt,
            resources: vec!["executor".to_owned()],
            waited_ms: 7,
            has_begun: false,
        }
    }

    #[test]
    fn a_busy_capability_is_reported_once_and_ends_with_a_slot() {
        let mut sent = Sent::running(&["one"]);
        let attempt = attempt(&sent);
        let events = sent.decide(lacks(attempt, false));
        let [event] = &events[..] else {
            panic!("{events:?}");
        };
        let EventKind::CapabilityShort(short) = &event.kind else {
            panic!("{event:?}");
        };
        let names = short.missing.iter().map(|it| it.capability.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["gpu", "web_search"]);
        assert_eq!(sent.run().status, RunStatus::Running);
        assert!(sent.decide(lacks(attempt, false)).is_empty());
        assert_eq!(sent.decide(placed(attempt)).len(), 1);
        let step = sent.session.step(attempt).expect("a step");
        assert_eq!(step.placing.resources, ["executor"]);
        assert_eq!((step.placing.waited_ms, step.placing.lacked.len()), (7, 2));
        // Another wait is reported anew.
        assert_eq!(sent.decide(lacks(attempt, false)).len(), 1);
    }

    #[test]
    fn what_no_resource_has_holds_the_run_until_one_has() {
        let mut sent = Sent::running(&["one"]);
        let attempt = attempt(&sent);
        sent.decide(lacks(attempt, false));
        // The shortage, and that the run waits.
        assert_eq!(sent.decide(lacks(attempt, true)).len(), 2);
        let waiting = RunStatus::Waiting(WaitReason::Capability);
        assert_eq!(sent.run().status, waiting);
        assert!(sent.session.outstanding().is_empty());
        assert!(!sent.session.needs_owner());
        for ignored in [
            lacks(attempt, true),
            lacks(attempt, false),
            placed(attempt),
            Input::TakenOver { holder_dead: true },
        ] {
            assert!(sent.decide(ignored.clone()).is_empty(), "{ignored:?}");
        }
        let attempts = vec![attempt];
        let found = Input::Found { attempts };
        assert_eq!(sent.decide(found.clone()).len(), 2);
        assert_eq!(sent.run().status, RunStatus::Running);
        assert_eq!(sent.session.outstanding().len(), 1);
        assert!(sent.decide(found).is_empty());
    }

    #[test]
    fn what_is_said_of_an_attempt_that_has_ended_is_ignored() {
        let mut sent = Sent::running(&["one"]);
        let attempt = attempt(&sent);
        sent.fail();
        for ignored in [
            lacks(attempt, true),
            placed(attempt),
            Input::Found {
                attempts: vec![attempt],
            },
        ] {
            assert!(sent.decide(ignored.clone()).is_empty(), "{ignored:?}");
        }
    }
}
