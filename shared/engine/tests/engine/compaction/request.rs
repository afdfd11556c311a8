//! What follows from a request that takes too much of the window.

use super::{
    asked, asked_for_summary, attempt, compacted, full, full_with, gone, look_once, looked,
    next_request, paid, report, size, summarised, sums_up, text, texts, unlimited,
};
use crate::turns::submit;
use crate::world::{
    World, chain, kinds, long, look, model_step, report_reply, tool_call, tool_step,
};
use cairn_engine::command::{Command, PauseRun, SubmitTurn, TurnOptions, WhenFull};
use cairn_engine::conversation::CompactionKind;
use cairn_engine::decide::Input;
use cairn_engine::event::{EventKind, WaitReason};
use cairn_engine::limits::RESULT_BYTES;
use cairn_engine::message::{Message, Role, Usage};
use cairn_engine::session::{FullCause, RunStatus};
use serde_json::json;

#[test]
fn older_messages_give_way_to_a_history_view_at_once() {
    let mut world = looked(7);
    let before = next_request(&world);
    let events = full(&mut world, 1_000);
    assert_eq!(kinds(&events), ["ContextCompacted", "ContextChanged"]);
    let view = compacted(&events);
    assert_eq!(view.kind, CompactionKind::History);
    assert_eq!((view.replaced, view.usage), (8, Usage::default()));
    assert!(view.tokens_after + 1_500 < view.tokens_before, "{view:?}");
    assert_eq!((view.version, view.context.as_str()), (0, ""));
    let after = next_request(&world);
    // System prompt and step context stay as they are, and so do the last three tool turns.
    assert_eq!(after[..2], before[..2]);
    assert_eq!(after[3..9], before[10..16]);
    let shown = "  → look(notes.md): part 4";
    assert!(after[2].text().ends_with(shown), "{}", after[2].text());
    assert_eq!(after[2].role, Role::Assistant);
    let told = after.last().unwrap().text();
    assert!(told.contains("A shorter text stands now for the older messages"));
    let running = attempt(&world);
    assert_eq!((running.compacted_at, running.rewrites), (Some(7), 1));
    assert_eq!(world.run().status, RunStatus::Running);
    assert_eq!(world.session, world.folded());
}

#[test]
fn a_summary_is_made_where_a_view_would_be_too_long() {
    let mut world = asked_for_summary();
    let task = attempt(&world).summary.clone().unwrap();
    assert_eq!((task.max_output_tokens, task.by_model), (1_000, false));
    assert!(task.prompt.contains("## Facts"), "{}", task.prompt);
    let before = world.session.usage;
    let events = sums_up(&mut world, " The port is 4711.\n");
    assert_eq!(kinds(&events), ["ContextCompacted", "ContextChanged"]);
    let summary = compacted(&events);
    assert_eq!(
        (summary.kind, summary.usage),
        (CompactionKind::Summary, paid())
    );
    assert!(
        summary.text.ends_with("\n\nThe port is 4711."),
        "{}",
        summary.text
    );
    assert_eq!(summary.messages, task.messages);
    let mut expected = before;
    expected.add(&paid());
    assert_eq!(world.session.usage, expected);
    assert_eq!(texts(&world)[1], summary.text);
    assert_eq!(attempt(&world).summary, None);
    assert_eq!(world.session, world.folded());
}

#[test]
fn a_tool_turn_has_one_compaction_and_a_request_that_fits_is_made() {
    let mut world = looked(7);
    full(&mut world, 1_000);
    assert!(full_with(&mut world, 7_600).is_empty());
    let events = full_with(&mut world, 7_601);
    assert_eq!(kinds(&events), ["ContextFull", "RunWaiting"]);
    let waits = RunStatus::Waiting(WaitReason::Context);
    assert_eq!(world.run().status, waits);
    assert!(world.outstanding().is_empty());
    // With the next tool turn there may be another one.
    let mut world = looked(7);
    full(&mut world, 1_000);
    look_once(&mut world, "part 8", 2_000);
    let events = full(&mut world, 1_000);
    assert_eq!(compacted(&events).kind, CompactionKind::History);
}

#[test]
fn nothing_is_compacted_where_nothing_is_older() {
    let mut world = looked(1);
    assert!(full_with(&mut world, 6_000).is_empty(), "it fits");
    assert_eq!(
        kinds(&full_with(&mut world, 9_000)),
        ["ContextFull", "RunWaiting"]
    );
    let full = attempt(&world).full.clone().unwrap();
    assert_eq!(full.cause, FullCause::NothingToCompact);
    assert_eq!((full.tokens, full.window), (9_000, super::WINDOW));
}

#[test]
fn a_summary_that_does_not_shrink_or_is_none_makes_the_run_wait() {
    let long = text("All of it:", 30_000);
    for (outcome, cause) in [
        (Ok(long), FullCause::DoesNotShrink),
        (Err(gone()), FullCause::NoSummary),
        (Ok(" \n".to_owned()), FullCause::NoSummary),
    ] {
        let mut world = asked_for_summary();
        let (before, said) = (world.session.usage, attempt(&world).conversation.clone());
        let events = summarised(&mut world, outcome);
        assert_eq!(kinds(&events), ["ContextFull", "RunWaiting"], "{cause:?}");
        let running = attempt(&world);
        assert_eq!(running.full.as_ref().map(|full| full.cause), Some(cause));
        assert_eq!(running.summary, None);
        assert_eq!(running.conversation, said);
        let mut expected = before;
        expected.add(&paid());
        assert_eq!(world.session.usage, expected, "it is paid for");
        assert_eq!(world.session, world.folded());
    }
}

#[test]
fn a_question_that_does_not_fit_is_asked_of_less() {
    let mut world = asked_for_summary();
    let task = attempt(&world).summary.clone().unwrap();
    let charged = world.session.usage;
    let events = full_with(&mut world, 7_000);
    assert_eq!(kinds(&events), ["SummaryAsked"]);
    let less = asked(&events);
    assert!(!less.again && less.messages.through < task.messages.through);
    assert!(less.estimate <= 6_600, "{}", less.estimate);
    assert_eq!(less.prompt, task.prompt);
    // It has never been asked.
    assert_eq!(world.session.usage, charged);
    let events = full_with(&mut world, 70_000);
    assert_eq!(kinds(&events), ["ContextFull", "RunWaiting"]);
    assert_eq!(world.session.usage, charged);
    assert_eq!(world.session, world.folded());
}

#[test]
fn a_turn_that_refuses_is_not_compacted() {
    let mut world = unlimited();
    world.command(Command::from(SubmitTurn {
        message: Some(Message::user("look")),
        options: TurnOptions {
            when_full: Some(WhenFull::Refuse),
            ..TurnOptions::default()
        },
        ..SubmitTurn::default()
    }));
    for n in 1..=6 {
        look_once(&mut world, &format!("part {n}"), 900);
    }
    assert!(full(&mut world, 3_000).is_empty());
    assert_eq!(world.run().status, RunStatus::Running);
}

#[test]
fn a_turn_is_compacted_before_its_mark_and_then_behind_it() {
    let mut world = unlimited();
    submit(&mut world, "first");
    look_once(&mut world, "part 1", 1_500);
    world.reply(1, "It is there.", &[]);
    let version = world.session.context("").unwrap().version;
    submit(&mut world, "second");
    for n in 2..=5 {
        look_once(&mut world, &format!("part {n}"), 700);
    }
    let events = full(&mut world, 1_000);
    let view = compacted(&events).clone();
    assert!(!view.messages.behind_mark);
    assert_eq!((view.context.as_str(), view.version), ("main", version + 1));
    let expected =
        "[done] first\n  Note: I look.\n  → look(notes.md): part 1\n  Summary: It is there.";
    assert_eq!(view.text, expected);
    assert_eq!(texts(&world)[..2], [expected, "second"]);
    look_once(&mut world, "part 6", 1_500);
    let events = full(&mut world, 1_800);
    assert!(compacted(&events).messages.behind_mark);
    let shown = texts(&world);
    assert_eq!(
        shown[..2],
        [expected, "second"],
        "the words of the person stay"
    );
    assert!(
        shown[2].starts_with("  Note: I look.\n  → look(notes.md): part 2"),
        "{shown:?}"
    );
    world.reply(1, "Done.", &[]);
    assert_eq!(world.run().status, RunStatus::Completed);
    assert_eq!(world.session, world.folded());
}

/// The model writes notes, and nothing else has them.
fn write_notes(world: &mut World) {
    let note = tool_call("scratchpad", &json!({ "text": "the port is 4711" }));
    world.reply(1, "", &[note]);
}

fn look_seven_times(world: &mut World) {
    for n in 1..=7 {
        look_once(world, &format!("part {n}"), 500);
    }
}

/// The messages of the next request that have the notes.
fn with_notes(world: &World) -> Vec<String> {
    let texts = texts(world).into_iter();
    texts.filter(|text| text.contains("4711")).collect()
}

#[test]
fn notes_whose_call_has_given_way_are_repeated_once() {
    let (mut step, mut turn) = (unlimited(), unlimited());
    step.start(chain(vec![model_step("one")]));
    submit(&mut turn, "first");
    for mut world in [step, turn] {
        write_notes(&mut world);
        look_seven_times(&mut world);
        assert_eq!(with_notes(&world), [""; 0]);
        assert!(compacted(&full(&mut world, 1_000)).messages.behind_mark);
        let shown = with_notes(&world);
        let expected = "Your notes are now:\n<scratchpad>\nthe port is 4711\n</scratchpad>\n</system-reminder>";
        assert!(shown[0].ends_with(expected), "{shown:?}");
        look_once(&mut world, "part 8", 2_000);
        assert!(compacted(&full(&mut world, 1_000)).messages.behind_mark);
        assert_eq!(with_notes(&world), shown);
        assert_eq!(world.session, world.folded());
    }
}

#[test]
fn notes_of_an_earlier_turn_are_in_each_request_and_not_repeated() {
    let mut world = unlimited();
    submit(&mut world, "first");
    write_notes(&mut world);
    world.reply(1, "one", &[]);
    submit(&mut world, "second");
    look_seven_times(&mut world);
    assert!(compacted(&full(&mut world, 1_000)).messages.behind_mark);
    let expected = ["<scratchpad>\nthe port is 4711\n</scratchpad>"];
    assert_eq!(with_notes(&world), expected);
}

/// Its model has said nothing.
#[test]
fn a_view_is_no_response_of_a_step() {
    let mut world = looked(0);
    for _ in 0..7 {
        world.reply(1, "", &[look()]);
        world.result(1, 0, &text("seen", 500));
    }
    let events = full(&mut world, 1_000);
    assert!(!compacted(&events).text.is_empty());
    world.complete(1, "done");
    let completed = world.journal.iter().find_map(|event| match &event.kind {
        EventKind::StepCompleted(completed) => Some(completed.response.clone()),
        _ => None,
    });
    assert_eq!(completed.as_deref(), Some(""));
}

#[test]
fn while_the_run_is_paused_nothing_is_compacted() {
    let mut world = looked(7);
    world.command(Command::from(PauseRun::default()));
    assert!(full(&mut world, 1_000).is_empty());
}

/// An executor that says several things at once, or what it cannot know, contradicts the state.
#[test]
fn a_report_has_one_answer_of_a_model() {
    let world = looked(7);
    let is_refused = |world: &World, input: Input| world.clone().try_decide(input).is_err();
    let with_full = |mut input: Input| {
        if let Input::Report { full, .. } = &mut input {
            *full = Some(size(&world, 0, 8_000));
        }
        input
    };
    let name = world.attempt(1);
    let reply = report_reply(name, (7, attempt(&world).newest_op()), "hm", &[]);
    assert!(!is_refused(&world, reply.clone()));
    assert!(is_refused(&world, with_full(reply)));
    let fails = Input::Report {
        attempt: name,
        results: Vec::new(),
        unfinished: Vec::new(),
        reply: None,
        failure: Some(gone()),
        full: None,
        summary: None,
        retry: None,
    };
    assert!(!is_refused(&world, fails.clone()));
    assert!(is_refused(&world, with_full(fails)));
    let of_tool = World::with_plan(chain(vec![tool_step("one", "look")]));
    let full = report(&of_tool, Some(size(&world, 0, 8_000)), None);
    assert!(is_refused(&of_tool, full));
}

#[test]
fn a_result_has_its_part_of_a_small_window() {
    let mut world = looked(0);
    let name = world.attempt(1);
    let ops = attempt(&world).newest_op();
    let mut reply = report_reply(name, (0, ops), "", &[look()]);
    if let Input::Report {
        reply: Some(reply), ..
    } = &mut reply
    {
        reply.window_tokens = 2_000;
    }
    world.decide(reply);
    let result = long(world.call(1, 0), 1_000_000);
    let events = world.report(1, vec![result]);
    let reported = World::reported(&events);
    let bytes = reported[0].0.len();
    assert!(
        (1_000..=2_000).contains(&bytes),
        "{bytes} of {RESULT_BYTES}"
    );
}
