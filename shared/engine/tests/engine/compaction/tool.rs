//! `compact`: the model asks for a compaction, and says what is to be kept.

use super::{asked, attempt, gone, look_once, looked, summarised, sums_up, text, texts, unlimited};
use crate::turns::submit;
use crate::world::{World, complete, kinds, look, tool_call};
use cairn_engine::decide::Input;
use cairn_engine::event::EventKind;
use cairn_engine::limits::MAX_COMPACTION_TEXT;
use cairn_engine::message::ToolCall;
use cairn_engine::session::RunStatus;
use serde_json::json;

fn compact(keep_in_mind: &str) -> ToolCall {
    tool_call("compact", &json!({ "keep_in_mind": keep_in_mind }))
}

/// The model has asked for a compaction, after five tool turns.
fn wanted() -> World {
    let mut world = looked(5);
    world.reply(1, "", &[compact("the port")]);
    assert!(attempt(&world).summary.is_some());
    world
}

#[test]
fn it_is_answered_once_the_other_calls_of_its_reply_have_ended() {
    let mut world = looked(5);
    let events = world.reply(1, "", &[look(), compact("the port")]);
    assert_eq!(kinds(&events), ["ReplyReceived"]);
    let events = world.result(1, 0, "seen");
    let expected = [
        "CallFinished",
        "CallFinished",
        "CompactionRequested",
        "SummaryAsked",
    ];
    assert_eq!(kinds(&events), expected);
    let question = asked(&events);
    assert!(
        question
            .prompt
            .ends_with("\n\n## The summary must keep\nthe port"),
        "{}",
        question.prompt
    );
    let said = &attempt(&world).conversation.behind;
    assert_eq!(
        question.messages.through, said[5].number,
        "three tool turns stay"
    );
    assert!(attempt(&world).summary.as_ref().unwrap().by_model);
    let events = sums_up(&mut world, "The port is 4711.");
    assert_eq!(kinds(&events), ["ContextCompacted", "ContextChanged"]);
    assert_eq!(attempt(&world).wants_compaction, None);
    let answer = "asked for: a reminder says what came of it";
    assert!(texts(&world).iter().any(|text| text == answer));
    assert_eq!(world.session, world.folded());
}

#[test]
fn it_says_so_if_nothing_is_older() {
    let mut world = looked(0);
    let events = world.reply(1, "", &[compact("")]);
    assert_eq!(kinds(&events), ["ReplyReceived", "CallFinished"]);
    let (answer, is_error) = World::reported(&events).remove(0);
    assert!(answer.starts_with("nothing is compacted: "), "{answer}");
    assert!(!is_error);
}

#[test]
fn a_step_that_ends_is_not_compacted() {
    let mut world = looked(5);
    let events = world.reply(1, "", &[complete("done"), compact("the port")]);
    let expected = [
        "ReplyReceived",
        "CallFinished",
        "CallFinished",
        "StepCompleted",
        "RunCompleted",
    ];
    assert_eq!(kinds(&events), expected);
    let (answer, is_error) = World::reported(&events).remove(0);
    assert_eq!(
        answer,
        "nothing is compacted: the same reply asks to end the step"
    );
    assert!(!is_error);
}

#[test]
fn the_first_of_several_calls_counts() {
    let mut world = looked(5);
    let events = world.reply(1, "", &[compact("the port"), compact("the host")]);
    let answers: Vec<_> = World::reported(&events);
    assert_eq!(
        answers[1].0,
        "not counted: the same reply asked for a compaction already"
    );
    let requested = events.iter().find_map(|event| match &event.kind {
        EventKind::CompactionRequested(requested) => Some(requested.keep_in_mind.as_str()),
        _ => None,
    });
    assert_eq!(requested, Some("the port"));
    assert_eq!(world.session, world.folded());
}

#[test]
fn no_person_is_asked_if_nothing_comes_of_it() {
    let long = text("All of it:", 5_000);
    for outcome in [Err(gone()), Ok(String::new()), Ok(long)] {
        let mut world = wanted();
        let events = summarised(&mut world, outcome);
        assert_eq!(kinds(&events), ["ContextFull", "ContextChanged"]);
        assert_eq!(world.run().status, RunStatus::Running);
        let running = attempt(&world);
        assert_eq!((&running.full, &running.wants_compaction), (&None, &None));
        let told = texts(&world).pop().unwrap();
        assert!(
            told.contains("The summary that you asked for is not made"),
            "{told}"
        );
        world.complete(1, "done");
        assert_eq!(world.session, world.folded());
    }
}

#[test]
fn what_it_keeps_in_mind_has_a_limit() {
    let mut world = looked(5);
    let events = world.reply(1, "", &[compact(&"x".repeat(MAX_COMPACTION_TEXT + 1))]);
    let (answer, is_error) = World::reported(&events).remove(0);
    assert_eq!(
        answer,
        "keep_in_mind has 16385 bytes; at most 16384 are allowed"
    );
    assert!(is_error);
    assert_eq!(kinds(&events), ["ReplyReceived", "CallFinished"]);
}

/// An owner that is about to let go leaves the question to the next one, which asks it for the first time.
#[test]
fn the_next_owner_asks_what_this_one_may_not() {
    let mut world = looked(5);
    world.starts = false;
    let events = world.reply(1, "", &[compact("the port")]);
    let expected = ["ReplyReceived", "CallFinished", "CompactionRequested"];
    assert_eq!(kinds(&events), expected);
    world.starts = true;
    let events = world.decide(Input::TakenOver { holder_dead: true });
    assert_eq!(kinds(&events), ["AttemptContinued", "SummaryAsked"]);
    assert!(!asked(&events).again);
    assert_eq!(world.session, world.folded());
}

#[test]
fn in_a_turn_what_stands_before_it_gives_way_first() {
    let mut world = unlimited();
    submit(&mut world, "first");
    look_once(&mut world, "part 1", 500);
    world.reply(1, "It is there.", &[]);
    submit(&mut world, "second");
    let events = world.reply(1, "", &[compact("")]);
    let messages = asked(&events).messages;
    assert!(!messages.behind_mark);
    assert_eq!(messages.through, 3, "fewer tool turns stay");
}
