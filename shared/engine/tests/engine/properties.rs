//! What holds whatever happens.
//!
//! Histories are random. Something moves each run, and every run ends.

use crate::invariants::{check_reuse, check_session, reported};
use crate::play::{Op, People, open_calls, ops, plan_seeds, play_to_the_end};
use crate::usage::UsageView;
use crate::world::{World, fold, run_of};
use cairn_engine::command::{self, Command, StartRun};
use cairn_engine::event::{self, Effect, Event, EventKind, ShortageKind};
use cairn_engine::session::{CallStatus, Run, RunStatus, Session, StepNo};
use cairn_engine::transitions::{StepPhase, step_may};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_inputs_keeps_the_invariants(ops in ops()) {
        let mut world = World::new();
        let mut watcher = Watcher::default();
        watcher.watch(&world);
        for (op, count) in ops.iter().zip(1..) {
            world.play(op);
            watcher.watch(&world);
            if count % 16 == 0 || count == ops.len() {
                watcher.check_usage(&world);
            }
        }
    }

    #[test]
    fn folding_gives_the_decided_state_from_any_checkpoint(ops in ops(), cut in any::<prop::sample::Index>()) {
        let mut world = World::new();
        ops.iter().for_each(|op| world.play(op));
        let cut = cut.index(world.journal.len() + 1);
        let mut session = Session::default();
        let mut resumed = None;
        for seq in 0..=world.journal.len() {
            let checkpoint = session.to_checkpoint().unwrap();
            let restored = Session::from_checkpoint(&checkpoint).unwrap();
            prop_assert_eq!(&restored, &session);
            if seq == cut {
                resumed = Some(restored);
            }
            if let Some(event) = world.journal.get(seq) {
                session.apply(seq as u64 + 1, event).unwrap();
                if let Some(resumed) = &mut resumed {
                    resumed.apply(seq as u64 + 1, event).unwrap();
                }
            }
        }
        prop_assert_eq!(&session, &world.session);
        prop_assert_eq!(&resumed.unwrap(), &world.session);
    }

    #[test]
    fn without_failures_every_run_ends_completed(seed in plan_seeds(), seeds in prop::collection::vec(any::<u8>(), 1..40)) {
        let mut seed = seed;
        // A tool that is not in the catalogue would fail its step.
        seed.steps.iter_mut().filter(|(kind, _)| kind % 32 == 12).for_each(|(kind, _)| *kind = 0);
        let mut world = World::new();
        world.play(&Op::Start(seed.clone()));
        play_to_the_end(&mut world, &seed, &seeds, People::Agree);
        let run = world.run();
        prop_assert_eq!(run.status, RunStatus::Completed);
        let plan = run.plan.as_ref().unwrap();
        prop_assert!(plan.steps.iter().all(|step| step.status.phase() == StepPhase::Completed));
        prop_assert!(world.outstanding().is_empty());
    }

    #[test]
    fn whatever_people_answer_every_run_ends(seed in plan_seeds(), seeds in prop::collection::vec(any::<u8>(), 1..40)) {
        let mut world = World::new();
        world.play(&Op::Start(seed.clone()));
        play_to_the_end(&mut world, &seed, &seeds, People::SayAnything);
        prop_assert!(world.run().status.is_terminal());
        prop_assert_eq!(&world.folded(), &world.session);
    }

    #[test]
    fn events_of_others_may_come_between(ops in ops(), others in prop::collection::vec(0..6_u8, 1..5)) {
        let mut world = World::new();
        for op in &ops {
            let before = world.session.clone();
            let known = world.journal.len();
            let is_foreign = match op {
                Op::Remember { .. } | Op::TakeOver { .. } | Op::Start(_) | Op::Cancel
                | Op::Decide { .. } => true,
                Op::Change(change) => change.is_command(),
                _ => false,
            };
            world.play(op);
            let own = &world.journal[known..];
            if is_foreign || own.is_empty() {
                continue;
            }
            let others = foreign_events(&others, before.seq, world.now);
            let mut rebased = world.session.clone();
            rebased.rebase(&others, own.len(), own).unwrap();
            let mut in_order = before;
            for (seq, event) in &others {
                in_order.apply(*seq, event).unwrap();
            }
            for event in own {
                in_order.apply(in_order.seq + 1, event).unwrap();
            }
            let numbers = |session: &Session| -> Vec<_> {
                session.runs.summaries().map(|run| (run.first_seq, run.last_seq)).collect()
            };
            let mut left_out = world.session.clone();
            left_out.leave_out(others.len() as u64, own.len(), 2);
            prop_assert_eq!((left_out.seq, left_out.needs), (in_order.seq, 2));
            prop_assert_eq!(numbers(&left_out), numbers(&in_order));
            prop_assert_eq!(rebased, in_order);
        }
    }
}

/// What clients write without being the owner.
fn foreign_events(seeds: &[u8], after: u64, at: u64) -> Vec<(u64, Event)> {
    let kind = |seed: &u8| match seed {
        0 => EventKind::MemoryCleared(event::MemoryCleared {}),
        1 => EventKind::MemoryRemoved(event::MemoryRemoved {
            key: "k".to_owned(),
            writer: None,
        }),
        2 => EventKind::MemorySet(event::MemorySet {
            key: "k".to_owned(),
            value: "of a client".to_owned(),
            writer: None,
            metadata: Default::default(),
        }),
        3 => EventKind::MemorySet(event::MemorySet {
            key: "other".to_owned(),
            value: "of a client".to_owned(),
            writer: None,
            metadata: Default::default(),
        }),
        4 => EventKind::CommandReceived(event::CommandReceived {
            request_id: "cancel".to_owned(),
            command: Command::CancelRun(command::CancelRun {
                run: 1,
                reason: String::new(),
            }),
        }),
        _ => EventKind::CommandReceived(event::CommandReceived {
            request_id: "start".to_owned(),
            command: Command::StartRun(StartRun::default()),
        }),
    };
    let events = seeds.iter().map(|seed| Event {
        answers: 0,
        principal: None,
        at,
        kind: kind(seed),
    });
    (after + 1..).zip(events).collect()
}

/// Follows a journal and checks what must hold after every transition.
#[derive(Default)]
struct Watcher {
    seen: usize,
    shadow: Session,
    phases: BTreeMap<(u32, StepNo), StepPhase>,
    ended_runs: BTreeSet<u32>,
    usage: UsageView,
}

impl Watcher {
    fn watch(&mut self, world: &World) {
        for event in &world.journal[self.seen..] {
            self.seen += 1;
            self.check_before(event);
            self.check_pool(event);
            let seq = self.seen as u64;
            let before = reported(&self.shadow, event);
            self.shadow.apply(seq, event).unwrap();
            assert_eq!(reported(&self.shadow, event), before, "{event:?}");
            self.usage.apply(event);
            self.check_phases();
        }
        assert_eq!(self.shadow, world.session, "the fold is the decided state");
        check_session(&world.session);
    }

    fn check_before(&mut self, event: &Event) {
        let run = run_of(event);
        let is_of_plan = matches!(
            event.kind,
            EventKind::RevisionRequested(_)
                | EventKind::PlanProposed(_)
                | EventKind::RevisionFailed(_)
                | EventKind::PlanApplied(_)
        );
        if let Some(run) = run.filter(|_| !is_of_plan) {
            assert!(!self.ended_runs.contains(&run), "after the end: {event:?}");
        }
        match &event.kind {
            EventKind::RunStarted(_) => assert!(self.shadow.active_run().is_none()),
            EventKind::RunCompleted(event::RunCompleted { run, .. })
            | EventKind::RunFailed(event::RunFailed { run, .. })
            | EventKind::RunCancelled(event::RunCancelled { run, .. }) => {
                self.ended_runs.insert(*run);
            }
            EventKind::PlanApplied(event::PlanApplied {
                run, plan, numbers, ..
            }) => {
                self.ended_runs.remove(run);
                let run = self.shadow.run(*run).unwrap();
                check_reuse(run.plan.as_ref(), plan, numbers);
            }
            EventKind::CallIntended(event::CallIntended { call, .. }) => {
                let run = self.shadow.run(call.attempt.run).unwrap();
                assert!(!run_is_held(run), "{event:?}");
            }
            EventKind::StepStarted(event::StepStarted { attempt, .. }) => {
                let run = self.shadow.run(attempt.run).unwrap();
                assert!(!run_is_held(run), "{event:?}");
                let plan = self.shadow.run(attempt.run).unwrap().plan.as_ref().unwrap();
                let step = self.shadow.step(*attempt).unwrap();
                let mut needed = step.plan.depends_on.iter();
                assert!(
                    needed.all(|slot| plan.steps[slot.index()].is_met()),
                    "{event:?}"
                );
            }
            EventKind::CallFinished(it) => {
                let call = self.shadow.call(it.call).unwrap();
                let is_intended = matches!(call.status, CallStatus::Intended { .. });
                // A person's word is a result, too.
                let is_asked = matches!(call.status, CallStatus::Asking { .. });
                let is_ready = is_intended || is_asked;
                assert!(call.effect != Effect::Effectful || is_ready, "{event:?}");
            }
            EventKind::ReplyReceived(it) => {
                assert!(open_calls(&self.shadow, it.attempt).is_empty(), "{event:?}");
            }
            _ => {}
        }
    }

    /// Each wait for the pool is written once and ends once, and no call is made meanwhile.
    fn check_pool(&self, event: &Event) {
        let short = |attempt| self.shadow.attempt(attempt).unwrap().short.clone();
        let known = match &event.kind {
            EventKind::CapabilityShort(it) => short(it.attempt).map(|known| (known.kind, it.kind)),
            EventKind::CapabilityFound(it) => {
                let known = short(it.attempt).map(|known| known.kind);
                assert_eq!(known, Some(ShortageKind::None), "{event:?}");
                None
            }
            EventKind::CallIntended(it) => {
                let known = short(it.call.attempt).map(|known| known.kind);
                assert_ne!(known, Some(ShortageKind::None), "{event:?}");
                None
            }
            _ => None,
        };
        let is_other = known.is_none_or(|it| it == (ShortageKind::Busy, ShortageKind::None));
        assert!(is_other, "{event:?}");
    }

    fn check_phases(&mut self) {
        for run in self.shadow.runs.whole() {
            for (step, number) in run
                .plan
                .iter()
                .flat_map(|plan| &plan.steps)
                .zip(StepNo::all())
            {
                let now = step.status.phase();
                let before = self.phases.insert((run.number, number), now);
                let before = before.unwrap_or(StepPhase::Pending);
                assert!(
                    before == now || step_may(before, now),
                    "{before:?} → {now:?}"
                );
            }
        }
    }

    fn check_usage(&self, world: &World) {
        for run in world.session.runs.summaries() {
            let usage = self.usage.run(run.number).unwrap();
            assert_eq!(usage.total, run.usage);
            assert_eq!(usage.tool_turns(), run.tool_turns as usize);
        }
    }
}

#[test]
fn a_journal_folds_to_the_same_state_twice() {
    let mut world = World::new();
    world.play(&Op::Remember {
        key: 1,
        clear: false,
    });
    assert_eq!(fold(&world.journal), fold(&world.journal));
    assert_eq!(fold(&world.journal), world.session);
}

/// Nothing may begin in it: it is paused, has no time or calls left, or is to end because a person
/// allowed it no more.
fn run_is_held(run: &Run) -> bool {
    run.status == RunStatus::Paused || run.no_calls().is_some() || run.ending.is_some()
}
