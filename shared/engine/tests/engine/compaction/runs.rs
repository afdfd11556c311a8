//! Runs that only compact a context, to the letter: the newest `keep` messages stay, and a model sums up the
//! older ones.

use super::{asked, attempt, full_with, gone, paid, summarised, sums_up, text, texts, unlimited};
use crate::turns::{refusal, said, submit};
use crate::world::growth::check_growth;
use crate::world::{World, kinds, look, report_reply};
use cairn_engine::command::{
    CancelRun, ChangeContext, Command, CompactContext, ContextOp, PauseRun, ResumeRun, SendMessage,
};
use cairn_engine::conversation::CompactionKind;
use cairn_engine::decide::Input;
use cairn_engine::event::{Budget, Event};
use cairn_engine::failure::FailureKind;
use cairn_engine::message::Message;
use cairn_engine::session::{Context, MAIN, RunStatus};

/// A context of six messages: what a person said, a reply, its result, another reply, and a second turn.
fn talked() -> World {
    let mut world = unlimited();
    submit(&mut world, "first");
    world.reply(1, "I look.", &[look()]);
    world.result(1, 0, "seen");
    world.reply(1, "one", &[]);
    submit(&mut world, "second");
    world.reply(1, "two", &[]);
    world
}

fn keep(world: &mut World, keep: u32) -> Vec<Event> {
    compact(
        world,
        CompactContext {
            keep,
            ..CompactContext::default()
        },
    )
}

fn compact(world: &mut World, command: CompactContext) -> Vec<Event> {
    world.command(command.into())
}

fn context(world: &World) -> &Context {
    world.session.context(MAIN).unwrap()
}

fn change(op: ContextOp) -> Command {
    Command::from(ChangeContext {
        ops: vec![op],
        ..ChangeContext::default()
    })
}

#[test]
fn the_newest_messages_stay_and_the_summary_joins_the_compressed_ones() {
    let mut world = talked();
    let before = context(&world).clone();
    let events = keep(&mut world, 3);
    assert_eq!(
        kinds(&events),
        ["RunStarted", "StepStarted", "SummaryAsked"]
    );
    let question = asked(&events);
    assert!(!question.messages.behind_mark && !question.messages.with_compressed);
    assert_eq!((question.messages.after, question.messages.through), (0, 3));
    assert_eq!(world.run().goal, "compact context 'main'");
    let events = sums_up(&mut world, "They looked.");
    let expected = ["ContextCompacted", "StepCompleted", "RunCompleted"];
    assert_eq!(kinds(&events), expected);
    let now = context(&world);
    assert_eq!(
        now.conversation.incremental[..],
        before.conversation.incremental[3..]
    );
    let [summary] = &now.conversation.compressed[..] else {
        panic!("{:?}", now.conversation.compressed);
    };
    assert_eq!(summary.compaction, Some(CompactionKind::Summary));
    assert!(summary.message.text().ends_with("They looked."));
    assert_eq!((now.version, now.turns), (before.version + 1, before.turns));
    assert_eq!(now.notes, before.notes);
    assert_eq!(world.run().spent.usage, paid());
    assert_eq!(world.session, world.folded());
    // The next turn is told, once.
    submit(&mut world, "third");
    let told = texts(&world).pop().unwrap();
    assert!(
        told.starts_with("third<system-reminder>\nA shorter text"),
        "{told}"
    );
    world.reply(1, "three", &[]);
    submit(&mut world, "fourth");
    assert_eq!(texts(&world).pop().unwrap(), "fourth");
}

#[test]
fn a_call_keeps_its_result_and_as_many_messages_as_there_are_keep_all() {
    for (kept, through) in [(0, 6), (1, 5), (2, 4), (3, 3), (4, 1), (5, 1)] {
        let mut world = talked();
        let events = keep(&mut world, kept);
        assert_eq!(asked(&events).messages.through, through, "{kept}");
        sums_up(&mut world, "They looked.");
        assert_eq!(
            context(&world).conversation.incremental.len(),
            6 - through as usize
        );
    }
    for kept in [6, 7] {
        let mut world = talked();
        let before = world.session.contexts.clone();
        let events = keep(&mut world, kept);
        assert_eq!(kinds(&events), ["ContextChanged"]);
        assert_eq!(world.session.contexts, before);
        assert_eq!(world.run().status, RunStatus::Completed, "no other run");
    }
}

#[test]
fn a_person_gives_the_prompt_and_what_is_kept() {
    let mut world = talked();
    let events = compact(
        &mut world,
        CompactContext {
            prompt: Some("In one line.".to_owned()),
            keep_in_mind: "the port".to_owned(),
            ..CompactContext::default()
        },
    );
    let expected = "In one line.\n\n## The summary must keep\nthe port";
    assert_eq!(asked(&events).prompt, expected);
    // A summary that a person asked for may have any length.
    let events = sums_up(&mut world, &text("All of it:", 5_000));
    assert_eq!(kinds(&events).last().unwrap(), "RunCompleted");
    assert_eq!(context(&world).conversation.compressed.len(), 1);
}

#[test]
fn a_failure_changes_nothing_and_is_paid_for() {
    let mut world = talked();
    let (before, spent) = (said(&world), world.session.usage);
    let version = context(&world).version;
    keep(&mut world, 2);
    let events = summarised(&mut world, Err(gone()));
    assert_eq!(kinds(&events), ["ContextFull", "StepFailed", "RunFailed"]);
    let failure = world.run().end.failure.clone().unwrap();
    assert_eq!(
        (failure.kind, failure.reason.as_str()),
        (FailureKind::Llm, "SUMMARY_FAILED")
    );
    assert!(failure.message.ends_with("the model is gone"), "{failure}");
    assert_eq!((said(&world), context(&world).version), (before, version));
    let mut expected = spent;
    expected.add(&paid());
    assert_eq!(world.session.usage, expected);
    submit(&mut world, "third");
    assert_eq!(
        texts(&world).pop().unwrap(),
        "third",
        "there is nothing to tell"
    );
    assert_eq!(world.session, world.folded());
}

#[test]
fn a_cancelled_one_changes_nothing_and_is_charged() {
    let mut world = talked();
    let (before, spent) = (said(&world), world.session.usage.input_tokens);
    let events = keep(&mut world, 2);
    let lost = asked(&events).estimate;
    world.command(CancelRun::default().into());
    assert_eq!(world.run().status, RunStatus::Cancelled);
    assert_eq!(said(&world), before);
    assert_eq!(world.session.usage.input_tokens, spent + lost);
    assert_eq!(world.session, world.folded());
}

/// Six turns of a model whose window has 1,600 tokens: a question has room for five of them.
fn long_talk() -> World {
    let mut world = unlimited();
    for n in 1..=6 {
        submit(&mut world, &format!("message {n}"));
        let name = world.attempt(1);
        let seen = (0, attempt(&world).newest_op());
        let mut reply = report_reply(name, seen, &text(&format!("reply {n}"), 100), &[]);
        if let Input::Report {
            reply: Some(reply), ..
        } = &mut reply
        {
            reply.window_tokens = 1_640;
        }
        world.decide(reply);
    }
    world
}

#[test]
fn messages_that_are_too_many_for_one_question_are_summed_up_in_several() {
    let mut world = long_talk();
    let events = keep(&mut world, 0);
    assert_eq!(asked(&events).messages.through, 10);
    assert_eq!(asked(&events).max_output_tokens, 205);
    let events = sums_up(&mut world, "The first five.");
    assert_eq!(kinds(&events), ["ContextCompacted", "SummaryAsked"]);
    assert_eq!(asked(&events).messages.through, 12);
    let events = sums_up(&mut world, "The last one.");
    let expected = ["ContextCompacted", "StepCompleted", "RunCompleted"];
    assert_eq!(kinds(&events), expected);
    let left = said(&world);
    assert_eq!(left.len(), 2);
    assert!(left[0].ends_with("The first five.") && left[1].ends_with("The last one."));
    assert_eq!(world.session, world.folded());
}

#[test]
fn a_question_that_does_not_fit_has_less_or_ends_the_run() {
    let mut world = long_talk();
    keep(&mut world, 0);
    let events = full_with(&mut world, 7_000);
    assert_eq!(kinds(&events), ["SummaryAsked"]);
    let through = asked(&events).messages.through;
    assert!(through < 10, "{through}");
    let events = full_with(&mut world, 90_000);
    assert_eq!(kinds(&events), ["ContextFull", "StepFailed", "RunFailed"]);
    let failure = world.run().end.failure.clone().unwrap();
    assert_eq!(failure.kind, FailureKind::LimitExceeded);
    assert_eq!(failure.reason, "CONTEXT_FULL");
    assert_eq!(said(&world).len(), 12);
    assert_eq!(world.session, world.folded());
}

/// The window of the model is not known, so the question has all messages at first. A ninth of them has room.
#[test]
fn a_question_is_shortened_in_time_proportional_to_the_messages() {
    let prepare = |messages: u32| {
        let mut world = unlimited();
        let append = |n| ContextOp::Append(Message::user(format!("message {n}")));
        world.command(Command::from(ChangeContext {
            ops: (0..messages).map(append).collect(),
            ..ChangeContext::default()
        }));
        let events = keep(&mut world, 0);
        assert_eq!(asked(&events).messages.through, messages);
        world
    };
    check_growth(prepare, |world| {
        let mut world = world.clone();
        let events = full_with(&mut world, 60_000);
        assert!(asked(&events).estimate <= 6_600);
    });
}

#[test]
fn a_context_that_changes_meanwhile_is_compacted_as_it_is_then() {
    let changes = [
        (ContextOp::Append(Message::user("third")), 5),
        (ContextOp::Remove { index: 5 }, 3),
    ];
    for (op, through) in changes {
        let mut world = talked();
        let asked_at_first = keep(&mut world, 2);
        assert_eq!(asked(&asked_at_first).messages.through, 4);
        world.command(PauseRun::default().into());
        assert_eq!(
            kinds(&world.command(change(op.clone()))),
            ["ContextChanged"]
        );
        let events = world.command(ResumeRun::default().into());
        assert_eq!(kinds(&events), ["RunResumed", "SummaryAsked"]);
        assert_eq!(asked(&events).messages.through, through, "{op:?}");
        assert!(!asked(&events).again);
    }
    let mut world = talked();
    keep(&mut world, 2);
    world.command(PauseRun::default().into());
    world.command(change(ContextOp::Clear));
    let events = world.command(ResumeRun::default().into());
    assert_eq!(
        kinds(&events),
        ["RunResumed", "StepCompleted", "RunCompleted"]
    );
    assert_eq!(world.session, world.folded());
}

#[test]
fn one_that_waits_for_a_budget_asks_anew_after_a_change() {
    let mut world = talked();
    world.limits.budgets[Budget::Tokens] = 100;
    let events = keep(&mut world, 2);
    let lost = asked(&events).estimate;
    // The lost answer uses up the budget.
    world.decide(Input::TakenOver { holder_dead: true });
    assert!(matches!(world.run().status, RunStatus::Waiting(_)));
    let spent = world.session.usage.input_tokens;
    let events = world.command(change(ContextOp::Append(Message::user("third"))));
    assert_eq!(kinds(&events), ["ContextChanged", "SummaryAsked"]);
    assert_eq!(asked(&events).messages.through, 5);
    assert_eq!(world.session.usage.input_tokens, spent + lost);
    assert!(
        world.outstanding().is_empty(),
        "the budget forbids the question"
    );
    assert_eq!(world.session, world.folded());
}

#[test]
fn its_model_is_told_and_asked_nothing_else() {
    let mut world = talked();
    keep(&mut world, 2);
    let message = Message::user("be brief");
    let steering = SendMessage {
        step: None,
        message,
    };
    assert_eq!(refusal(&world.command(steering.into())), "NO_RUNNING_TURN");
    let reply = report_reply(world.attempt(1), (0, 0), "hello", &[]);
    assert!(world.clone().try_decide(reply).is_err());
    let attempts = vec![world.attempt(1)];
    assert!(world.decide(Input::MemoryChanged { attempts }).is_empty());
    assert_eq!(refusal(&keep(&mut world, 9)), "CONTEXT_BUSY");
}
