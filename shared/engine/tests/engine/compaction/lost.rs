//! Questions for summaries whose answers do not come: each is charged once, as it was estimated.

use super::{asked, asked_for_summary, attempt, full, gone, sums_up, unlimited};
use crate::turns::submit;
use crate::world::{World, kinds};
use cairn_engine::command::{Command, CompactContext, PauseRun, ResumeRun, Settlement};
use cairn_engine::decide::{Fork, Input};
use cairn_engine::event::{Budget, CommandReceived, EventKind};
use cairn_engine::session::RunStatus;

fn input_tokens(world: &World) -> u64 {
    world.session.usage.input_tokens
}

/// What the pending summary would be charged as.
fn estimate(world: &World) -> u64 {
    attempt(world).summary.as_ref().unwrap().estimate
}

#[test]
fn an_owner_that_takes_over_asks_again() {
    let mut world = asked_for_summary();
    let (spent, lost) = (input_tokens(&world), estimate(&world));
    let task = attempt(&world).summary.clone();
    for times in 1..=2 {
        let events = world.decide(Input::TakenOver { holder_dead: true });
        assert_eq!(kinds(&events), ["AttemptContinued", "SummaryAsked"]);
        assert!(asked(&events).again);
        assert_eq!(input_tokens(&world), spent + times * lost);
        assert_eq!(attempt(&world).summary, task);
    }
    let attempt = world.attempt(1);
    let events = world.decide(Input::AttemptLost { attempt });
    assert_eq!(kinds(&events), ["AttemptContinued", "SummaryAsked"]);
    assert_eq!(input_tokens(&world), spent + 3 * lost);
    sums_up(&mut world, "It is short.");
    let events = world.decide(Input::TakenOver { holder_dead: true });
    assert_eq!(kinds(&events), ["AttemptContinued"], "nothing is pending");
    assert_eq!(world.session, world.folded());
}

/// The next owner asks: this one only answers commands, or is about to let go.
#[test]
fn an_owner_that_begins_nothing_asks_nothing() {
    let mut world = asked_for_summary();
    let spent = input_tokens(&world);
    world.starts = false;
    let attempt = world.attempt(1);
    world.decide(Input::AttemptLost { attempt });
    world.decide(Input::TakenOver { holder_dead: true });
    assert_eq!(input_tokens(&world), spent);
    world.starts = true;
    let events = world.decide(Input::TakenOver { holder_dead: true });
    assert!(asked(&events).again);
}

#[test]
fn a_pause_ends_the_question_and_a_late_answer_does_not_count() {
    let mut world = asked_for_summary();
    let (spent, lost) = (input_tokens(&world), estimate(&world));
    world.command(Command::from(PauseRun::default()));
    assert_eq!(input_tokens(&world), spent + lost);
    assert!(sums_up(&mut world, "It is short.").is_empty());
    assert_eq!(input_tokens(&world), spent + lost);
    let events = world.command(Command::from(ResumeRun::default()));
    assert_eq!(kinds(&events), ["RunResumed"]);
    let events = full(&mut world, 0);
    assert!(!asked(&events).again);
    assert_eq!(input_tokens(&world), spent + lost);
    assert_eq!(world.session, world.folded());
}

/// The pause charges the answer that was lost with the owner. The question after it has never been asked.
#[test]
fn a_question_that_commands_bring_before_a_takeover_is_not_lost() {
    let mut world = unlimited();
    submit(&mut world, "first");
    world.reply(1, "one", &[]);
    world.command(Command::from(CompactContext::default()));
    let (spent, lost) = (input_tokens(&world), estimate(&world));
    let commands = [
        Command::from(PauseRun::default()),
        Command::from(ResumeRun::default()),
    ];
    for command in commands {
        world.foreign(EventKind::CommandReceived(CommandReceived {
            request_id: format!("request-{}", world.session.seq),
            command,
        }));
    }
    let events = world.decide(Input::TakenOver { holder_dead: true });
    let expected = [
        "AttemptContinued",
        "RunPaused",
        "RunResumed",
        "SummaryAsked",
    ];
    assert_eq!(kinds(&events), expected);
    assert!(!asked(&events).again);
    assert_eq!(input_tokens(&world), spent + lost);
    assert_eq!(world.session, world.folded());
}

#[test]
fn a_step_that_fails_is_charged_for_its_question() {
    let mut world = asked_for_summary();
    let (spent, lost) = (input_tokens(&world), estimate(&world));
    world.fail(1, gone());
    assert_eq!(world.run().status, RunStatus::Failed);
    assert_eq!(input_tokens(&world), spent + lost);
    assert_eq!(world.session, world.folded());
}

fn fork(world: &World, continues: bool) -> World {
    let mut child = world.clone();
    child.decide(Input::Forked(Fork {
        session: "parent".to_owned(),
        request_id: "request".to_owned(),
        principal: None,
        title: String::new(),
        continues,
    }));
    child
}

/// The answer to the question of the other session comes there.
#[test]
fn a_copy_asks_for_itself() {
    let world = asked_for_summary();
    let (spent, lost) = (input_tokens(&world), estimate(&world));
    let mut child = fork(&world, true);
    let events = child.decide(Input::TakenOver { holder_dead: true });
    assert!(asked(&events).again);
    assert_eq!(input_tokens(&child), spent + lost);
    let paused = fork(&world, false);
    assert_eq!(paused.run().status, RunStatus::Paused);
    assert_eq!(attempt(&paused).summary, None);
    assert_eq!(input_tokens(&paused), spent + lost);
}

#[test]
fn time_that_is_used_up_ends_the_question() {
    let mut world = unlimited();
    world.limits.budgets[Budget::Time] = 60_000;
    super::begin_many_looks(&mut world);
    let events = full(&mut world, 0);
    let lost = asked(&events).estimate;
    let spent = input_tokens(&world);
    world.now += 60_000;
    let events = world.decide(Input::Tick);
    assert_eq!(kinds(&events), ["BudgetExhausted", "RunWaiting"]);
    assert_eq!(attempt(&world).summary, None);
    assert_eq!(input_tokens(&world), spent + lost);
    world.answer("budget-1", Settlement::Retry);
    assert_eq!(world.run().status, RunStatus::Running);
    asked(&full(&mut world, 0));
    assert_eq!(world.session, world.folded());
}

/// What a summary takes counts, as does a reply.
#[test]
fn a_summary_counts_for_the_budgets_of_its_run() {
    let mut world = unlimited();
    world.limits.budgets[Budget::Tokens] = 3_000;
    super::begin_many_looks(&mut world);
    full(&mut world, 0);
    let events = sums_up(&mut world, "It is short.");
    let expected = [
        "ContextCompacted",
        "ContextChanged",
        "BudgetExhausted",
        "RunWaiting",
    ];
    assert_eq!(kinds(&events), expected);
    // Nothing more is asked, and the messages have given way.
    assert!(world.outstanding().is_empty());
    world.answer("budget-1", Settlement::Retry);
    world.complete(1, "done");
    assert_eq!(world.run().status, RunStatus::Completed);
}
