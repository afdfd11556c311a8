//! The execution log: nothing is missing, nothing is changed.

use crate::world::{World, chain, complete, explored, log, model_step, send, tool_step};
use cairn_engine::command::Settlement;
use cairn_engine::decide::Input;
use cairn_engine::views::log::{Entry, EntryKind};

fn names(entries: &[Entry]) -> Vec<&'static str> {
    entries.iter().map(|entry| entry.kind.name()).collect()
}

#[test]
fn every_call_has_its_input_and_its_output() {
    let world = explored();
    let log = log(&world);
    let mut calls = Vec::new();
    let mut results = Vec::new();
    for entry in log.entries() {
        match &entry.kind {
            EntryKind::Call {
                call, tool, input, ..
            } => calls.push((*call, tool.clone(), input.clone())),
            EntryKind::Result {
                call, tool, output, ..
            } => results.push((*call, tool.clone(), output.clone())),
            _ => {}
        }
    }
    assert_eq!(calls.len(), 8);
    assert_eq!(results.len(), 7, "the last call is still running");
    assert!(
        calls
            .iter()
            .any(|(_, tool, input)| tool == "send" && input.contains("ops"))
    );
    for (call, tool, _) in &results {
        assert!(
            calls
                .iter()
                .any(|(asked, name, _)| asked == call && name == tool)
        );
    }
    assert!(
        results
            .iter()
            .any(|(.., output)| output == "15 files\nsrc/main.rs")
    );
}

#[test]
fn every_text_of_the_model_is_there() {
    let log = log(&explored());
    let texts = log.entries().iter().filter_map(|entry| match &entry.kind {
        EntryKind::Reply { text, .. } if !text.is_empty() => Some(text.as_str()),
        _ => None,
    });
    let expected = [
        "I need the layout first. Then more.",
        "All is known.",
        "Now I change it.",
    ];
    assert_eq!(texts.collect::<Vec<_>>(), expected);
}

#[test]
fn entries_say_when_and_where() {
    let world = World::with_plan(chain(vec![tool_step("one", "send")]));
    let log = log(&world);
    let expected = ["run_started", "plan_applied", "step_started", "call"];
    assert_eq!(names(log.entries()), expected);
    let call = log.entries().last().unwrap();
    assert_eq!((call.run, call.step, call.attempt), (1, 1, 1));
    assert_eq!((call.seq, call.at), (5, world.now));
    let run = &log.entries()[0];
    assert_eq!((run.run, run.step, run.attempt), (1, 0, 0));
}

#[test]
fn the_log_of_a_longer_journal_begins_with_that_of_a_shorter_one() {
    let world = explored();
    let whole = log(&world);
    for length in 0..world.journal.len() {
        let mut shorter = world.clone();
        shorter.journal.truncate(length);
        let earlier = log(&shorter);
        assert_eq!(
            earlier.entries(),
            &whole.entries()[..earlier.entries().len()]
        );
        assert_eq!(
            whole.after(length as u64),
            &whole.entries()[earlier.entries().len()..]
        );
    }
}

#[test]
fn doubts_and_what_a_person_said_are_logged() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    world.reply(1, "", &[send(), complete("sent")]);
    world.decide(Input::TakenOver { holder_dead: false });
    let before = world.journal.len() as u64 - 3;
    world.answer(
        "call-1.1.1.0.0",
        Settlement::Done {
            output: "it was sent".to_owned(),
        },
    );
    world.now += 1_000_000;
    world.decide(Input::Tick);
    let log = log(&world);
    let expected = [
        "attempt_continued",
        "in_doubt",
        "run_waiting",
        "decided",
        "settled",
        "result",
        "result",
        "step_ended",
        "run_resumed",
        "run_ended",
    ];
    assert_eq!(names(log.after(before)), expected);
    let result = log
        .after(before)
        .iter()
        .find_map(|entry| match &entry.kind {
            EntryKind::Result {
                tool,
                output,
                duration_ms,
                ..
            } => Some((tool.as_str(), output.as_str(), *duration_ms)),
            _ => None,
        });
    assert_eq!(result, Some(("send", "it was sent", None)));
}
