//! Plans that people look at before they are carried out.

use crate::asking::{assert_refused, deny, open};
use crate::world::{World, chain, kinds, model_step, tool_step, with_goal};
use cairn_engine::command::{
    self, Command, LimitOverrides, OnFailure, RevisePlan, Settlement, StartRun,
};
use cairn_engine::decide::Input;
use cairn_engine::event::WaitReason;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::outstanding::Work;
use cairn_engine::pending::{Asked, pending};
use cairn_engine::session::RunStatus;

const REVIEW: RunStatus = RunStatus::Waiting(WaitReason::PlanReview);

/// A run whose plans a person has to agree to.
fn reviewed(on_failure: OnFailure) -> World {
    let mut world = World::new();
    let Command::StartRun(start) = with_goal("the goal") else {
        unreachable!("a start");
    };
    world.command(Command::StartRun(StartRun {
        limits: LimitOverrides {
            review_plan: true,
            on_failure: Some(on_failure),
            ..LimitOverrides::default()
        },
        ..start
    }));
    world.planned(Ok(chain(vec![model_step("one"), model_step("two")])));
    world
}

fn revised(
    world: &mut World,
    request_seq: u64,
    titles: &[&str],
) -> Vec<cairn_engine::event::Event> {
    let steps = titles.iter().map(|title| model_step(title)).collect();
    world.decide(Input::Planned {
        run: 1,
        request: Some(request_seq),
        outcome: Ok(chain(steps)),
        usage: cairn_engine::message::Usage::default(),
        duration_ms: 5,
    })
}

#[test]
fn a_plan_is_carried_out_once_a_person_agrees() {
    let mut world = reviewed(OnFailure::Stop);
    assert_eq!(world.run().status, REVIEW);
    assert!(world.run().plan.is_none());
    assert!(world.outstanding().is_empty());
    let about = pending(&world.session).remove(0);
    assert_eq!(about.id().to_string(), "plan-1.1");
    let Asked::Plan { plan, .. } = about.asked else {
        panic!("{about:?}");
    };
    assert_eq!(plan.steps.len(), 2);
    let events = world.answer("plan-1.1", Settlement::Approve);
    assert_eq!(
        kinds(&events),
        [
            "Decided",
            "RunResumed",
            "PlanApplied",
            "StepStarted",
            "ContextChanged"
        ]
    );
    assert_eq!(world.running(), [1]);
    // Nobody is asked about plans that people gave.
    let given = Command::RevisePlan(RevisePlan {
        run: 1,
        plan: Some(chain(vec![model_step("three")])),
        apply: true,
        ..RevisePlan::default()
    });
    let events = world.command(given);
    assert_eq!(
        kinds(&events),
        [
            "StepSkipped",
            "PlanApplied",
            "StepStarted",
            "ContextChanged"
        ]
    );
}

#[test]
fn a_plan_that_is_denied_is_made_anew_and_looked_at_again() {
    let mut world = reviewed(OnFailure::Stop);
    assert_refused(
        &world.answer("plan-1.1", deny(" ")),
        "BAD_SETTLEMENT",
        "no reason",
    );
    let events = world.answer("plan-1.1", deny("shorter, please"));
    assert_eq!(kinds(&events), ["Decided", "RevisionRequested"]);
    assert!(pending(&world.session)[0].is_answered);
    assert_refused(
        &world.answer("plan-1.1", deny("x")),
        "ALREADY_DECIDED",
        "twice",
    );
    let request_seq = *world.run().revisions.requests.keys().next().unwrap();
    assert_eq!(
        world.outstanding(),
        [Work::Plan {
            run: 1,
            request: Some(request_seq)
        }]
    );
    // A crash in between loses neither.
    world.session = world.folded();
    let events = revised(&mut world, request_seq, &["only"]);
    assert_eq!(kinds(&events), ["PlanProposed"]);
    assert_eq!(open(&world), ["plan-1.2"]);
    assert_refused(
        &world.answer("plan-1.1", Settlement::Approve),
        "NOT_PENDING",
        "the old one",
    );
    world.answer("plan-1.2", Settlement::Approve);
    assert_eq!(world.run().plan.as_ref().unwrap().steps.len(), 1);
}

#[test]
fn a_planner_that_fails_leaves_the_plan_to_be_decided() {
    let mut world = reviewed(OnFailure::Stop);
    world.answer("plan-1.1", deny("shorter, please"));
    let request_seq = *world.run().revisions.requests.keys().next().unwrap();
    let failure = Failure::new(FailureKind::Llm, "Refused", "no");
    world.decide(Input::Planned {
        run: 1,
        request: Some(request_seq),
        outcome: Err(failure),
        usage: cairn_engine::message::Usage::default(),
        duration_ms: 5,
    });
    // Another question: the first no, sent once more, must not cost another plan.
    assert_eq!(open(&world), ["plan-1.1-2"]);
    assert!(!pending(&world.session)[0].is_answered);
    assert_eq!(world.run().status, REVIEW);
    let late = world.answer("plan-1.1", deny("shorter, please"));
    assert_refused(&late, "NOT_PENDING", "asked again");
    let events = world.answer("plan-1.1-2", deny("much shorter"));
    assert_eq!(kinds(&events), ["Decided", "RevisionRequested"]);
    assert!(pending(&world.session)[0].is_answered);
    let twice = world.answer("plan-1.1-2", deny("much shorter"));
    assert_refused(&twice, "ALREADY_DECIDED", "denied already");
}

#[test]
fn feedback_of_somebody_else_denies_no_plan() {
    let mut world = reviewed(OnFailure::Stop);
    world.command(Command::RevisePlan(RevisePlan {
        run: 1,
        feedback: "mention the year".to_owned(),
        apply: true,
        ..RevisePlan::default()
    }));
    assert!(!pending(&world.session)[0].is_answered);
    let events = world.answer("plan-1.1", deny("shorter, please"));
    assert_eq!(kinds(&events), ["Decided", "RevisionRequested"]);
}

/// The plan that was to come in its stead is not paid for any more; what others wished of the first
/// plan is asked about this one.
#[test]
fn a_plan_that_is_agreed_to_after_all_needs_no_other() {
    let mut world = reviewed(OnFailure::Stop);
    world.answer("plan-1.1", deny("shorter, please"));
    let events = world.answer("plan-1.1", Settlement::Approve);
    let continues = [
        "Decided",
        "RunResumed",
        "PlanApplied",
        "RevisionFailed",
        "StepStarted",
        "ContextChanged",
    ];
    assert_eq!(kinds(&events), continues);
    assert_eq!(world.outstanding(), [Work::RunStep(world.attempt(1))]);
}

#[test]
fn a_way_round_a_failure_is_looked_at_too() {
    let mut world = reviewed(OnFailure::Revise);
    world.answer("plan-1.1", Settlement::Approve);
    let events = world.fail(1, Failure::new(FailureKind::Llm, "Refused", "no"));
    assert_eq!(kinds(&events), ["StepFailed", "RevisionRequested"]);
    let events = revised(&mut world, 0, &["round it", "two"]);
    assert_eq!(kinds(&events), ["PlanProposed", "RunWaiting"]);
    assert_eq!(open(&world), ["plan-1.2"]);
    let events = world.answer("plan-1.2", Settlement::Approve);
    assert_eq!(
        kinds(&events),
        [
            "Decided",
            "RunResumed",
            "PlanApplied",
            "StepStarted",
            "ContextChanged"
        ]
    );
}

#[test]
fn a_run_that_waits_for_its_plan_can_be_paused_and_cancelled() {
    let mut world = reviewed(OnFailure::Stop);
    let run = 1;
    let reason = String::new;
    world.command(Command::PauseRun(command::PauseRun {
        run,
        reason: reason(),
    }));
    assert!(world.outstanding().is_empty());
    let events = world.command(Command::ResumeRun(command::ResumeRun { run }));
    assert_eq!(kinds(&events), ["RunResumed", "RunWaiting"]);
    assert!(world.outstanding().is_empty(), "it is not planned again");
    let events = world.command(Command::CancelRun(command::CancelRun {
        run,
        reason: reason(),
    }));
    assert_eq!(kinds(&events), ["RunCancelled"]);
    assert!(open(&world).is_empty());
}

#[test]
fn a_plan_that_is_given_is_looked_at_too() {
    let mut world = World::new();
    let limits = LimitOverrides {
        review_plan: true,
        ..LimitOverrides::default()
    };
    world.start_with(chain(vec![tool_step("one", "send")]), limits);
    assert_eq!(world.run().status, REVIEW);
    assert_eq!(open(&world), ["plan-1.1"]);
    assert!(world.outstanding().is_empty());
    let events = world.answer("plan-1.1", Settlement::Approve);
    let begins = [
        "Decided",
        "RunResumed",
        "PlanApplied",
        "StepStarted",
        "CallIntended",
    ];
    assert_eq!(kinds(&events), begins);
}
