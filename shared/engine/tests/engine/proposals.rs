//! Other plans that are proposed, and the ones that are refused.

use crate::changes::{apply, change, feedback, propose, revise, running, take};
use crate::control::{answer, cancel};
use crate::world::kinds;
use crate::world::notation::plan;
use cairn_engine::command::{self, Command, RevisePlan};
use cairn_engine::plan::PlanDraft;

#[test]
fn a_proposal_changes_nothing_until_it_is_applied() {
    let mut world = running();
    let before = world.run().plan.clone();
    let events = world.command(propose("a b x"));
    assert_eq!(kinds(&events), ["PlanProposed"]);
    assert_eq!(world.run().plan, before);
    assert_eq!(answer(&world.command(take(1))), "");
    assert_eq!(world.fates(3), "1d 2r 4n | 3p");
    assert_eq!(world.run().revision(), 2);
    assert_eq!(answer(&world.command(take(1))), "PLAN_MOVED_ON");
}

#[test]
fn a_proposal_for_another_plan_is_stale_and_one_that_never_was_is_unknown() {
    let mut world = running();
    world.command(propose("a b x"));
    world.command(propose("a b y"));
    assert_eq!(answer(&world.command(take(3))), "NO_SUCH_PROPOSAL");
    assert_eq!(answer(&world.command(take(0))), "NO_SUCH_PROPOSAL");
    world.command(take(2));
    assert_eq!(world.fates(3), "1d 2r 4n | 3p");
    let revision = world.run().plan.clone();
    for proposal in [1, 2] {
        assert_eq!(answer(&world.command(take(proposal))), "PLAN_MOVED_ON");
    }
    assert_eq!(answer(&world.command(take(3))), "NO_SUCH_PROPOSAL");
    assert_eq!(world.run().plan, revision);
    // Numbers are not used again.
    world.command(propose("a b z"));
    assert!(world.run().revisions.proposals.contains_key(&3));
}

#[test]
fn only_so_many_proposals_are_kept() {
    let mut world = running();
    for _ in 0..9 {
        world.command(propose("a b x"));
    }
    assert_eq!(world.run().revisions.proposals.len(), 8);
    assert_eq!(answer(&world.command(take(1))), "PLAN_MOVED_ON");
    assert_eq!(answer(&world.command(take(2))), "");
}

#[test]
fn a_plan_for_another_revision_is_refused() {
    let mut world = running();
    for apply in [false, true] {
        let expecting = |revision| {
            Command::RevisePlan(RevisePlan {
                expected_revision: revision,
                ..revise(plan("a b x"), apply)
            })
        };
        assert_eq!(answer(&world.clone().command(expecting(1))), "");
        assert_eq!(answer(&world.command(expecting(2))), "PLAN_MOVED_ON");
    }
    let words = Command::RevisePlan(RevisePlan {
        expected_revision: 2,
        ..feedback(true)
    });
    assert_eq!(answer(&world.command(words)), "PLAN_MOVED_ON");
    assert_eq!(world.run().revision(), 1);
}

#[test]
fn what_is_no_revision_is_refused() {
    let mut world = running();
    let none = Command::RevisePlan(revise(PlanDraft::default(), true));
    assert_eq!(answer(&world.command(none)), "BAD_PLAN");
    let said = |feedback: &str| {
        Command::RevisePlan(RevisePlan {
            feedback: feedback.to_owned(),
            run: 1,
            ..RevisePlan::default()
        })
    };
    assert_eq!(answer(&world.command(said(" \n"))), "BAD_FEEDBACK");
    let long = "x".repeat(cairn_engine::limits::MAX_GOAL + 1);
    assert_eq!(answer(&world.command(said(&long))), "BAD_FEEDBACK");
    for _ in 0..8 {
        assert_eq!(answer(&world.command(change(true))), "");
    }
    assert_eq!(answer(&world.command(change(true))), "TOO_MANY_REVISIONS");
    for run in [2, 3] {
        let change = RevisePlan {
            run,
            ..feedback(true)
        };
        assert_eq!(
            answer(&world.command(Command::RevisePlan(change))),
            "NO_SUCH_RUN"
        );
        assert_eq!(
            answer(&world.command(Command::RedoStep(command::RedoStep {
                run,
                step: 1.into()
            }))),
            "NO_SUCH_RUN"
        );
        let take = Command::ApplyProposal(command::ApplyProposal { run, proposal: 1 });
        assert_eq!(answer(&world.command(take)), "NO_SUCH_RUN");
    }
    let redo = |step| Command::RedoStep(command::RedoStep { run: 1, step });
    assert_eq!(answer(&world.command(redo(2.into()))), "STEP_NOT_ENDED");
    assert_eq!(answer(&world.command(redo(4.into()))), "NO_SUCH_STEP");
}

#[test]
fn only_the_newest_run_is_revised() {
    let mut world = running();
    world.command(cancel());
    world.start(plan("x"));
    for command in [
        apply("a b"),
        change(true),
        take(1),
        Command::RedoStep(command::RedoStep {
            run: 1,
            step: 1.into(),
        }),
    ] {
        assert_eq!(answer(&world.command(command)), "RUN_ENDED");
    }
}
