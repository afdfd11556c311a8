//! The question that a run asks when nothing helps, and what people answer.

use super::{
    asked, asked_for_summary, attempt, compacted, full, full_with, gone, looked, summarised,
    unlimited,
};
use crate::turns::{refusal, submit};
use crate::world::{World, kinds, look};
use cairn_engine::command::{ChangeContext, Command, ContextOp, Settlement};
use cairn_engine::conversation::CompactionKind;
use cairn_engine::decide::Input;
use cairn_engine::event::ContextFull;
use cairn_engine::limits::MAX_COMPACTION_TEXT;
use cairn_engine::message::Usage;
use cairn_engine::pending::pending;
use cairn_engine::session::{FullCause, RunStatus};

/// A step that waits, because the model wrote no summary.
fn waits() -> World {
    let mut world = asked_for_summary();
    summarised(&mut world, Err(gone()));
    world
}

fn question(world: &World) -> String {
    pending(&world.session)[0].id().to_string()
}

fn answer(text: &str) -> Settlement {
    let text = text.to_owned();
    Settlement::Answer { text }
}

#[test]
fn retrying_compacts_anew() {
    let mut world = waits();
    let question = question(&world);
    assert_eq!(question, "context-1.1.1");
    let events = world.answer(&question, Settlement::Retry);
    assert_eq!(kinds(&events), ["Decided", "RunResumed"]);
    assert_eq!(world.run().status, RunStatus::Running);
    let again = world.answer(&question, Settlement::Retry);
    assert_eq!(refusal(&again), "NOT_PENDING");
    let events = full(&mut world, 0);
    assert!(asked(&events).prompt.contains("## Facts"));
    assert_eq!(world.session, world.folded());
}

#[test]
fn another_prompt_is_that_of_the_next_summary() {
    // There a history view would do.
    let mut world = looked(7);
    let full_before = ContextFull {
        attempt: world.attempt(1),
        cause: FullCause::NothingToCompact,
        tokens: 9_000,
        window: 8_000,
        failure: None,
        usage: Usage::default(),
        provider: String::new(),
        model: String::new(),
        duration_ms: 0,
    };
    world.foreign(full_before.into());
    world.decide(Input::Tick);
    let id = question(&world);
    let events = world.answer(&id, answer("Keep the numbers."));
    assert_eq!(kinds(&events), ["Decided", "RunResumed"]);
    let events = full(&mut world, 1_000);
    assert_eq!(asked(&events).prompt, "Keep the numbers.");
    summarised(&mut world, Err(gone()));
    let second = question(&world);
    assert_eq!(second, "context-1.1.1-2");
    world.answer(&second, Settlement::Retry);
    let events = full(&mut world, 1_000);
    assert_eq!(compacted(&events).kind, CompactionKind::History);
}

#[test]
fn a_person_can_let_the_attempt_fail() {
    for (reason, ends) in [("", "tokens"), ("too dear", "; too dear")] {
        let mut world = waits();
        let question = question(&world);
        let reason = reason.to_owned();
        let events = world.answer(&question, Settlement::Fail { reason });
        let expected = ["Decided", "StepFailed", "RunResumed", "RunFailed"];
        assert_eq!(kinds(&events), expected);
        let failure = world.run().end.failure.clone().unwrap();
        assert_eq!(failure.reason, "CONTEXT_FULL");
        assert!(failure.message.ends_with(ends), "{failure}");
        assert_eq!(world.session, world.folded());
    }
}

#[test]
fn the_question_takes_no_other_answer() {
    let mut world = waits();
    let question = question(&world);
    let output = String::new();
    let long = "x".repeat(MAX_COMPACTION_TEXT + 1);
    for settlement in [
        Settlement::Approve,
        Settlement::Done { output },
        answer(" \n"),
        answer(&long),
    ] {
        let refused = world.answer(&question, settlement);
        assert_eq!(refusal(&refused), "BAD_SETTLEMENT");
    }
    for other in ["context-1.1.1-2", "context-1.2.1", "context-2.1.1"] {
        let refused = world.answer(other, Settlement::Retry);
        assert_eq!(refusal(&refused), "NOT_PENDING", "{other}");
    }
    assert!(attempt(&world).full.is_some());
}

#[test]
fn a_changed_context_lets_its_turn_continue() {
    let mut world = unlimited();
    submit(&mut world, "first");
    world.reply(1, "one", &[]);
    submit(&mut world, "second");
    world.reply(1, "", &[look()]);
    world.result(1, 0, "seen");
    let events = full_with(&mut world, 9_000);
    assert_eq!(kinds(&events), ["ContextFull", "RunWaiting"]);
    let change = Command::from(ChangeContext {
        ops: vec![ContextOp::Clear],
        ..ChangeContext::default()
    });
    let events = world.command(change);
    assert_eq!(kinds(&events), ["ContextChanged", "RunResumed"]);
    world.reply(1, "done", &[]);
    assert_eq!(world.run().status, RunStatus::Completed);
    assert_eq!(world.session, world.folded());
}
