//! Totals, sizes and records of ended turns. They change with each event, and are what the whole journal
//! adds up to.

use crate::play::{open_calls, ops};
use crate::turns::{refusal, submit, turn};
use crate::usage::UsageView;
use crate::world::{World, chain, look, model_step, report_reply};
use cairn_engine::command::{CancelRun, Command, RevisePlan, SubmitTurn, WhenBusy};
use cairn_engine::decide::Input;
use cairn_engine::event::{self, Event, EventKind};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::{Message, Usage};
use cairn_engine::pending::{pending, reasons};
use cairn_engine::session::{Run, RunStatus, RunSummary, Session};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Bytes of a record, beside its texts.
const RECORD: usize = 64;

/// What may happen beside the operations of a run with a plan.
#[derive(Debug, Clone, Copy)]
enum Talk {
    /// A turn is submitted, and waits for the end of an active run.
    Queue,
    /// A turn is submitted in the place of an active one.
    Interrupt,
    /// The model of an active turn answers.
    Answer,
    /// Its model fails.
    Fail,
    Nothing,
}

fn talk() -> impl Strategy<Value = Talk> {
    prop_oneof![
        2 => Just(Talk::Queue),
        1 => Just(Talk::Interrupt),
        4 => Just(Talk::Answer),
        1 => Just(Talk::Fail),
        4 => Just(Talk::Nothing),
    ]
}

impl World {
    /// Returns whether all events are the owner's.
    fn talk(&mut self, talk: Talk) -> bool {
        let when_busy = match talk {
            Talk::Queue => WhenBusy::Queue,
            Talk::Interrupt => WhenBusy::Interrupt,
            Talk::Answer | Talk::Fail => {
                let is_turn = |run: u32| self.session.run(run).is_some_and(|it| it.turn.is_some());
                let mut attempts = self.attempts().into_iter();
                let ready = attempts
                    .find(|name| is_turn(name.run) && open_calls(&self.session, *name).is_empty());
                match (ready, talk) {
                    (None, _) => {}
                    (Some(name), Talk::Fail) => {
                        let failure = Failure::new(FailureKind::Llm, "Refused", "no");
                        self.fail(name.step, failure);
                    }
                    (Some(name), _) => {
                        self.reply(name.step, "Good day.", &[]);
                    }
                }
                return true;
            }
            Talk::Nothing => return true,
        };
        self.command(Command::from(SubmitTurn {
            when_busy,
            ..turn("Hello.\nIs anything new?")
        }));
        false
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn totals_are_what_the_journal_adds_up_to(
        ops in ops(), talks in prop::collection::vec(talk(), 100),
    ) {
        let mut world = World::new();
        let mut ended = Ended::default();
        for ((op, talk), count) in ops.iter().zip(&talks).zip(1..) {
            let (before, known) = (world.session.clone(), world.journal.len());
            let is_own = world.talk(*talk);
            let own = &world.journal[known..];
            if is_own && !own.is_empty() {
                check_rebase(&before, own, &world.session);
            }
            ended.note(&world.session);
            world.play(op);
            ended.note(&world.session);
            if count % 8 == 0 || count == ops.len() {
                ended.check(&world.session);
                check_totals(&world);
            }
        }
        prop_assert_eq!(&world.folded(), &world.session);
        let checkpoint = world.session.to_checkpoint().unwrap();
        prop_assert_eq!(Session::from_checkpoint(&checkpoint), Some(world.session));
    }
}

fn check_totals(world: &World) {
    let session = &world.session;
    let mut journal = UsageView::default();
    world.journal.iter().for_each(|event| journal.apply(event));
    assert_eq!(session.usage, journal.total());
    let mut runs = Usage::default();
    session
        .runs
        .summaries()
        .for_each(|run| runs.add(&run.usage));
    assert_eq!(session.usage, runs);

    let open = pending(session);
    let asked: Vec<_> = open.iter().map(|it| (it.reason(), it.since)).collect();
    assert_eq!(reasons(session).collect::<Vec<_>>(), asked);

    let contexts = session.contexts.values();
    let messages = contexts.flat_map(|context| context.messages());
    let messages: u64 = messages.map(Message::bytes).sum();
    let records: Vec<_> = records(session).collect();
    let texts: usize = records.iter().map(texts_of).sum();
    let sizes = session.sizes();
    assert_eq!(sizes.texts, messages as usize + texts);
    assert!(sizes.memory >= sizes.texts + RECORD * records.len());
    assert!(sizes.memory <= sizes.texts + 2 * RECORD * records.len());
}

/// The ended turns of which only a record stays.
fn records(session: &Session) -> impl Iterator<Item = RunSummary<'_>> {
    let newest = session.runs.len() as u32;
    let turns = session.runs.summaries().filter(|run| run.context.is_some());
    turns.filter(move |run| run.number < newest)
}

fn texts_of(record: &RunSummary<'_>) -> usize {
    let failure = record
        .failure
        .map_or(0, |failure| failure.reason.len() + failure.message.len());
    let context = record.context.unwrap_or_default();
    record.goal.len() + context.len() + record.answer.len() + record.cancel_reason.len() + failure
}

/// What lists showed of each run while it was the newest.
#[derive(Default)]
struct Ended(BTreeMap<u32, String>);

impl Ended {
    fn note(&mut self, session: &Session) {
        let newest = session.runs.last().map(Run::summary);
        self.0.extend(newest.map(|run| (run.number, shown(run))));
    }

    /// Nothing of it has changed since it had ended.
    fn check(&self, session: &Session) {
        for run in session.runs.summaries() {
            let was = self.0.get(&run.number);
            if let Some(was) = was.filter(|was| was.contains("ended_at: Some")) {
                assert_eq!(*was, shown(run));
            }
        }
        for record in records(session) {
            assert_eq!(session.run(record.number), None);
        }
    }
}

fn shown(run: RunSummary<'_>) -> String {
    format!("{:?}", RunSummary { plan: None, ..run })
}

/// An event of others that comes to stand before those of a decision leads to the same state as if it had
/// come first.
fn check_rebase(before: &Session, own: &[Event], decided: &Session) {
    let other = Event {
        at: before.updated_at,
        answers: 0,
        principal: None,
        kind: EventKind::MemorySet(event::MemorySet {
            key: "key".to_owned(),
            value: "of a client".to_owned(),
            writer: None,
            metadata: Default::default(),
        }),
    };
    let mut rebased = decided.clone();
    let others = [(before.seq + 1, other.clone())];
    rebased.rebase(&others, own.len(), own).unwrap();
    let mut in_order = before.clone();
    for event in std::iter::once(&other).chain(own) {
        in_order.apply(in_order.seq + 1, event).unwrap();
    }
    assert_eq!(rebased, in_order);
}

/// A session whose turns completed, failed and were cancelled, and whose newest run has a plan.
fn talked() -> World {
    let mut world = World::new();
    submit(&mut world, "first");
    world.reply(1, "", &[look()]);
    world.result(1, 0, "seen");
    world.reply(1, "done", &[]);
    submit(&mut world, "second");
    world.fail(1, Failure::new(FailureKind::Llm, "Refused", "no"));
    submit(&mut world, "third");
    let reason = "no more".to_owned();
    world.command(CancelRun { run: 0, reason }.into());
    world.start(chain(vec![model_step("one")]));
    world
}

#[test]
fn a_record_shows_how_its_turn_ended() {
    let world = talked();
    let shown: Vec<_> = world.session.runs.summaries().collect();
    let ends: Vec<_> = shown
        .iter()
        .map(|run| (run.goal, run.context, run.status, run.tool_turns))
        .collect();
    let main = Some("main");
    assert_eq!(
        ends,
        [
            ("first", main, RunStatus::Completed, 2),
            ("second", main, RunStatus::Failed, 0),
            ("third", main, RunStatus::Cancelled, 0),
            ("the goal", None, RunStatus::Running, 0),
        ]
    );
    let failure = shown[1].failure.expect("a failure");
    assert_eq!(
        (failure.reason.as_str(), shown[2].cancel_reason),
        ("Refused", "no more")
    );
    assert!(shown[0].usage.tokens() > 0 && shown[0].ended_at.is_some());
    for (run, next) in shown.iter().zip(&shown[1..]) {
        assert!(run.first_seq < run.last_seq && run.last_seq < next.first_seq);
    }
}

/// Its fields are small, and the totals are exact.
#[test]
fn a_record_shows_the_largest_number_that_it_holds() {
    let mut world = World::new();
    submit(&mut world, "first");
    let attempt = world.attempt(1);
    let ops = world.session.attempt(attempt).unwrap().newest_op();
    let mut report = report_reply(attempt, (0, ops), "done", &[]);
    let Input::Report { reply, .. } = &mut report else {
        panic!("no report");
    };
    let used = Usage {
        input_tokens: 5_000_000_000,
        output_tokens: 7,
        model_calls: 100_000,
        ..Usage::default()
    };
    reply.as_mut().unwrap().usage = used;
    world.decide(report);
    assert_eq!(world.run().summary().usage, used);
    submit(&mut world, "second");
    let record = world.session.runs.summary(1).unwrap();
    let held = Usage {
        input_tokens: u32::MAX.into(),
        model_calls: u16::MAX.into(),
        ..used
    };
    assert_eq!(record.usage, held);
    assert_eq!(world.session.usage, used);
}

#[test]
fn a_record_refuses_changes_as_its_turn_did() {
    let mut world = talked();
    for run in 1..=3 {
        let revise = RevisePlan {
            run,
            feedback: "another way".to_owned(),
            ..RevisePlan::default()
        };
        assert_eq!(refusal(&world.command(revise.into())), "NO_PLAN");
        let reason = String::new();
        let events = world.command(CancelRun { run, reason }.into());
        assert_eq!(refusal(&events), "RUN_ENDED");
    }
    let gone = RevisePlan {
        run: 5,
        ..RevisePlan::default()
    };
    assert_eq!(refusal(&world.command(gone.into())), "NO_SUCH_RUN");
}
