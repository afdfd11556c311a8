//! Feedback for the planner, its answers, and what becomes of both when the plan or the run moves on.

use crate::control::{answer, cancel, pause, refused, resume};
use crate::usage::UsageView;
use crate::world::notation::plan;
use crate::world::{World, fold, kinds, with_goal};
use cairn_engine::command::{self, Command, RevisePlan};
use cairn_engine::decide::Input;
use cairn_engine::event::{self, Event, EventKind};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::outstanding::Work;
use cairn_engine::plan::PlanDraft;
use cairn_engine::session::RunStatus;

pub(crate) fn revise(plan: PlanDraft, apply: bool) -> RevisePlan {
    RevisePlan {
        run: 1,
        plan: Some(plan),
        apply,
        ..RevisePlan::default()
    }
}

pub(crate) fn feedback(apply: bool) -> RevisePlan {
    RevisePlan {
        run: 1,
        feedback: "the tests are missing".to_owned(),
        apply,
        ..RevisePlan::default()
    }
}

pub(crate) fn propose(text: &str) -> Command {
    Command::RevisePlan(revise(plan(text), false))
}

pub(crate) fn apply(text: &str) -> Command {
    Command::RevisePlan(revise(plan(text), true))
}

pub(crate) fn change(apply: bool) -> Command {
    Command::RevisePlan(feedback(apply))
}

pub(crate) fn take(proposal: u32) -> Command {
    Command::ApplyProposal(command::ApplyProposal { run: 1, proposal })
}

pub(crate) fn running() -> World {
    let mut world = World::with_plan(plan("a b c"));
    world.end(1);
    world
}

impl World {
    fn asks(&self) -> Vec<u64> {
        self.run().revisions.requests.keys().copied().collect()
    }
}

fn failures(events: &[Event]) -> Vec<(u64, &str)> {
    let failures = events.iter().filter_map(|event| match &event.kind {
        EventKind::RevisionFailed(event::RevisionFailed {
            request, failure, ..
        }) => Some((*request, failure.reason.as_str())),
        _ => None,
    });
    failures.collect()
}

#[test]
fn feedback_is_answered_by_a_plan_or_a_proposal() {
    for is_applied in [true, false] {
        let mut world = running();
        assert_eq!(
            kinds(&world.command(change(is_applied))),
            ["RevisionRequested"]
        );
        let spent = world.run().spent.usage;
        let events = world.revised(Ok(plan("a b tests")));
        let expected = if is_applied {
            "PlanApplied"
        } else {
            "PlanProposed"
        };
        assert_eq!(kinds(&events), [expected]);
        assert!(world.asks().is_empty());
        let tokens = world.run().spent.usage.input_tokens - spent.input_tokens;
        assert_eq!(tokens, 40, "planning costs");
        if !is_applied {
            world.command(take(1));
        }
        assert_eq!(world.fates(3), "1d 2r 4n | 3p");
    }
}

#[test]
fn an_answer_that_is_no_plan_leaves_the_plan() {
    let mut world = running();
    let before = world.run().plan.clone();
    let answers = [
        (Err(refused()), "Refused"),
        (Ok(PlanDraft::default()), "BadPlan"),
    ];
    for (outcome, reason) in answers {
        world.command(change(true));
        let asked = world.asks();
        let events = world.revised(outcome);
        assert_eq!(failures(&events), [(asked[0], reason)]);
        assert_eq!(
            (world.asks(), world.run().status),
            (vec![], RunStatus::Running)
        );
    }
    assert_eq!(world.run().plan, before);
}

#[test]
fn a_change_about_the_plan_before_is_answered_without_the_planner() {
    let mut world = running();
    world.command(change(true));
    world.command(change(false));
    let asked = world.asks();
    let events = world.command(apply("a b x"));
    let void = [(asked[0], "PLAN_MOVED_ON"), (asked[1], "PLAN_MOVED_ON")];
    assert_eq!(failures(&events), void);
    assert!(world.asks().is_empty());
    // Nothing comes of an answer that was on its way.
    assert!(world.answered(asked[0], Ok(plan("w"))).is_empty());
}

#[test]
fn changes_are_asked_about_one_after_the_other_while_paused_too() {
    let mut world = running();
    world.command(change(false));
    world.command(change(false));
    let asked = world.asks();
    let revises = |world: &World| -> Vec<u64> {
        let work = world.outstanding().into_iter();
        work.filter_map(|work| match work {
            Work::Plan { request, .. } => request,
            _ => None,
        })
        .collect()
    };
    assert_eq!(revises(&world), asked[..1]);
    world.revised(Ok(plan("a b x")));
    assert_eq!(revises(&world), asked[1..]);
    world.command(pause());
    assert_eq!(revises(&world), asked[1..]);
    world.answered(asked[1], Ok(plan("a b y")));
    assert_eq!((world.run().revisions.proposed, world.asks()), (2, vec![]));
    world.command(take(2));
    assert_eq!(world.run().status, RunStatus::Paused);
    world.command(resume());
    assert_eq!(world.fates(3), "1d 2r 4n | 3p");
}

#[test]
fn feedback_for_a_plan_that_is_being_made_waits_for_it() {
    let mut world = World::new();
    world.command(with_goal("a goal"));
    world.command(change(true));
    assert_eq!(
        world.outstanding(),
        [Work::Plan {
            run: 1,
            request: None,
        }]
    );
    world.planned(Ok(plan("a b")));
    world.end(1);
    world.revised(Ok(plan("a tests")));
    assert_eq!(world.fates(2), "1d 3n | 2s");
}

/// Whoever wishes something always gets an answer.
#[test]
fn a_run_that_has_no_plan_is_given_one_by_a_change() {
    let mut failed = World::new();
    failed.command(with_goal("a goal"));
    let mut paused = failed.clone();
    let failure = Failure::new(FailureKind::PlanParse, "BadPlan", "no plan");
    failed.planned(Err(failure));
    assert_eq!(failed.run().status, RunStatus::Failed);
    paused.command(pause());
    for mut world in [failed, paused] {
        world.command(change(true));
        let request_seq = world.asks()[0];
        assert!(world.outstanding().contains(&Work::Plan {
            run: 1,
            request: Some(request_seq)
        }));
        world.revised(Ok(plan("a b")));
        assert_eq!(world.run().revision(), 1);
    }
}

#[test]
fn changes_end_with_what_they_were_about() {
    let mut world = running();
    world.command(change(true));
    world.command(change(true));
    let asked = world.asks();
    let dropped: Vec<_> = asked.iter().map(|&seq| (seq, "REVISION_DROPPED")).collect();

    let mut cancelled = world.clone();
    assert_eq!(failures(&cancelled.command(cancel())), dropped);
    assert_eq!(
        (cancelled.asks(), cancelled.outstanding()),
        (vec![], vec![])
    );
    assert!(cancelled.answered(asked[0], Ok(plan("w"))).is_empty());

    let limit = Input::LimitReached {
        failure: Failure::new(FailureKind::LimitExceeded, "journal", "it is full"),
    };
    let mut full = world.clone();
    assert_eq!(failures(&full.decide(limit.clone())), dropped);
    assert_eq!(
        (full.outstanding(), full.run().status),
        (vec![], RunStatus::Failed)
    );

    // An ended run may be revised, so its wishes are asked about: until another run begins, or the
    // journal is full.
    world.end(2);
    world.end(3);
    assert_eq!(world.run().status, RunStatus::Completed);
    assert_eq!(world.asks(), asked);
    let mut full = world.clone();
    assert_eq!(failures(&full.decide(limit)), dropped);
    assert_eq!(full.outstanding(), []);
    let mut opened = world.clone();
    opened.revised(Ok(plan("a b c tests")));
    assert_eq!(opened.fates(3), "1d 2d 3d 4n");
    assert_eq!(opened.run().status, RunStatus::Running);
    let start = Command::StartRun(command::StartRun {
        plan: Some(plan("x")),
        ..Default::default()
    });
    assert_eq!(failures(&world.command(start)), dropped);
    assert!(world.asks().is_empty());
    assert_eq!(fold(&world.journal), world.session);
}

/// Commands that would open a run again are refused when the journal is full.
#[test]
fn a_full_journal_takes_no_revision() {
    let commands = [
        apply("w"),
        change(true),
        take(1),
        Command::RedoStep(command::RedoStep {
            run: 1,
            step: 1.into(),
        }),
    ];
    for command in commands {
        let mut world = running();
        world.foreign(EventKind::CommandReceived(event::CommandReceived {
            request_id: "late".to_owned(),
            command,
        }));
        let failure = Failure::new(FailureKind::LimitExceeded, "journal", "it is full");
        let events = world.decide(Input::LimitReached { failure });
        assert_eq!(answer(&events), "LIMIT");
        assert_eq!((world.outstanding(), world.run().revision()), (vec![], 1));
    }
}

#[test]
fn what_proposals_and_failed_revisions_cost_is_counted_everywhere() {
    let mut world = running();
    world.command(change(false));
    world.revised(Ok(plan("a b x")));
    world.command(change(false));
    world.revised(Err(refused()));
    let mut view = UsageView::default();
    world.journal.iter().for_each(|event| view.apply(event));
    let counted = view.run(1).unwrap();
    assert_eq!(counted.total, world.run().spent.usage);
    assert_eq!(
        (counted.planning.input_tokens, counted.planning_ms),
        (80, 1_600)
    );
}
