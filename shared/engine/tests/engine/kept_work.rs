//! Turns that keep their work: whatever the moment and the way of their end, the next request is one that providers
//! take, and each call has one result.

use crate::turns::{said, say, turn};
use crate::world::{LEASE, TIME_LIMIT, World, finished, fold, kinds};
use cairn_engine::command::{
    CancelRun, ChangeContext, Command, ContextOp, Keep, Settlement, SubmitTurn, TurnOptions,
    WhenBusy,
};
use cairn_engine::decide::{Fork, Input};
use cairn_engine::event::{
    CallFinished, EventKind, FileState, OpenCall, RunCancelled, StepSkipped,
};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::{Message, Role, ToolCall};
use cairn_engine::pending::{Asked, pending};
use cairn_engine::session::{MAIN, Session};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A tool turn.
#[derive(Debug, Clone)]
struct Round {
    tools: Vec<&'static str>,
    /// A person says something after the reply.
    is_steered: bool,
    /// The executor is lost after the reply.
    is_lost: bool,
}

/// How a turn ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Completed,
    Failed,
    Cancelled,
    /// The journal is full.
    AtLimit,
    /// Another turn takes its place.
    Interrupted,
}

const ENDS: [End; 5] = [
    End::Completed,
    End::Failed,
    End::Cancelled,
    End::AtLimit,
    End::Interrupted,
];

/// What an end is to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// The owner that began the turn.
    Same,
    /// One that comes after a kill.
    Next,
    /// One that reads a checkpoint.
    OfCheckpoint,
    /// That of a copy.
    OfFork,
}

fn call(id: &str, tool: &str) -> ToolCall {
    let arguments = match tool {
        "scratchpad" => r#"{"text": "a note"}"#,
        _ => "{}",
    };
    ToolCall {
        id: id.to_owned(),
        name: tool.to_owned(),
        arguments: arguments.to_owned(),
    }
}

fn keeping(text: &str, keep: Keep) -> SubmitTurn {
    SubmitTurn {
        options: TurnOptions {
            keep: Some(keep),
            ..TurnOptions::default()
        },
        ..turn(text)
    }
}

fn failure() -> Failure {
    Failure::new(FailureKind::Llm, "Server", "the model is gone")
}

fn is_running(world: &World) -> bool {
    let run = world.session.active_run();
    run.is_some_and(|run| run.running_attempts().next().is_some())
}

/// People answer, time passes, and each call gets a result.
fn settle(world: &mut World) {
    for _ in 0..8 {
        let open = pending(&world.session).into_iter();
        let open: Vec<_> = open.filter(|it| !it.is_answered).collect();
        if open.is_empty() {
            break;
        }
        for asked in open {
            let answer = match asked.asked {
                Asked::Approval { .. } => Settlement::Approve,
                _ => Settlement::Done {
                    output: "found out".to_owned(),
                },
            };
            world.answer(&asked.id().to_string(), answer);
        }
        world.now += LEASE + TIME_LIMIT;
        world.decide(Input::Tick);
    }
    if !is_running(world) {
        return;
    }
    let attempt = world.attempt(1);
    let running = world.session.attempt(attempt).unwrap();
    let open = running.last_calls(attempt);
    let open = open.filter(|(_, call)| !call.is_finished());
    let open: Vec<_> = open.map(|(name, _)| name.index).collect();
    for index in open {
        world.result(1, index, "seen");
    }
}

/// A turn with these tool turns, and the places in its journal at which a transition ends.
fn played(rounds: &[Round], keep: Keep) -> (World, BTreeSet<usize>) {
    let mut world = World::new();
    let mut ends = BTreeSet::from([world.journal.len()]);
    world.command(keeping("Begin.", keep).into());
    ends.insert(world.journal.len());
    for (number, round) in rounds.iter().enumerate() {
        let calls = round.tools.iter().enumerate();
        let calls = calls.map(|(index, tool)| call(&format!("{number}.{index}"), tool));
        let calls: Vec<_> = calls.collect();
        world.reply(1, &format!("Reply {number}."), &calls);
        ends.insert(world.journal.len());
        if round.is_steered {
            say(&mut world, &format!("Steer {number}."));
            ends.insert(world.journal.len());
        }
        if round.is_lost {
            let attempt = world.attempt(1);
            world.decide(Input::AttemptLost { attempt });
            ends.insert(world.journal.len());
        }
        settle(&mut world);
        ends.insert(world.journal.len());
    }
    world.reply(1, "Done.", &[]);
    ends.insert(world.journal.len());
    (world, ends)
}

/// The world as it was after so many events, with such an owner.
fn cut(world: &World, events: usize, owner: Owner) -> World {
    let mut cut = world.clone();
    cut.journal.truncate(events);
    cut.session = fold(&cut.journal);
    match owner {
        Owner::Same => {}
        Owner::Next => {
            cut.decide(Input::TakenOver { holder_dead: false });
        }
        Owner::OfCheckpoint => {
            let bytes = cut.session.to_checkpoint().unwrap();
            let read = Session::from_checkpoint(&bytes).unwrap();
            assert_eq!(read, cut.session);
            cut.session = read;
            cut.decide(Input::TakenOver { holder_dead: true });
        }
        Owner::OfFork => {
            cut.decide(Input::Forked(Fork {
                session: "parent".to_owned(),
                request_id: "request".to_owned(),
                principal: None,
                title: String::new(),
                continues: true,
            }));
            cut.decide(Input::TakenOver { holder_dead: true });
        }
    }
    cut
}

fn interrupting() -> SubmitTurn {
    SubmitTurn {
        when_busy: WhenBusy::Interrupt,
        ..turn("And now?")
    }
}

/// Ends the turn, if it has not ended.
fn end(world: &mut World, end: End) {
    match end {
        End::Completed => {
            for _ in 0..6 {
                settle(world);
                if is_running(world) {
                    world.reply(1, "Done.", &[]);
                }
            }
        }
        End::Failed => {
            if is_running(world) {
                world.fail(1, failure());
            }
        }
        End::Cancelled => {
            let reason = String::new();
            world.command(CancelRun { run: 0, reason }.into());
        }
        End::AtLimit => {
            let failure = Failure::new(FailureKind::LimitExceeded, "journal_events", "it is full");
            world.decide(Input::LimitReached { failure });
        }
        End::Interrupted => {
            if world.session.active_run().is_some() {
                world.command(interrupting().into());
            }
        }
    }
}

/// What the model of the running turn is sent next, without the system prompt.
fn request(world: &World) -> Vec<Arc<Message>> {
    let name = world.attempt(1);
    let mut conversation = world.session.conversation(name).unwrap();
    for op in &world.session.attempt(name).unwrap().waiting_ops {
        conversation.apply(op.clone()).unwrap();
    }
    let messages = conversation.messages().into_iter();
    messages
        .filter(|message| message.role != Role::System)
        .collect()
}

/// What providers ask of a list of messages: the user begins and ends it, no two replies follow each other, and the
/// results of a reply's calls follow it, one for each, in their order.
fn check_request(messages: &[Arc<Message>]) {
    let mut open: Vec<&str> = Vec::new();
    let mut was_reply = None;
    for message in messages {
        let is_reply = message.role == Role::Assistant;
        for result in message.results() {
            assert_eq!(open.first(), Some(&&*result.call_id), "{messages:?}");
            open.remove(0);
        }
        if message.role != Role::Tool {
            assert!(open.is_empty(), "{open:?} have no result: {messages:?}");
        }
        if is_reply {
            assert_eq!(was_reply, Some(false), "{messages:?}");
            assert!(!message.parts.is_empty(), "{messages:?}");
            open = message.calls().map(|call| &*call.id).collect();
        }
        was_reply = Some(is_reply);
    }
    assert!(open.is_empty(), "{open:?} have no result: {messages:?}");
    assert_eq!(was_reply, Some(false), "the user is last: {messages:?}");
}

/// Of the first run: its replies, the calls of these, and what a person said to it.
fn counts(world: &World) -> [usize; 3] {
    let mut counts = [0; 3];
    for event in &world.journal {
        match &event.kind {
            EventKind::ReplyReceived(reply) if reply.attempt.run == 1 => {
                counts[0] += 1;
                counts[1] += reply.calls.len();
            }
            EventKind::ContextChanged(changed) if changed.is_steering => counts[2] += 1,
            _ => {}
        }
    }
    counts
}

/// What the context holds of the first run, as counted by [`counts`].
fn held(messages: &[&Message]) -> [usize; 3] {
    let of = |role: Role| messages.iter().filter(|it| it.role == role).count();
    let is_said = |it: &&&Message| it.said().starts_with("Steer");
    let steered = messages.iter().filter(is_said).count();
    [of(Role::Assistant), of(Role::Tool), steered]
}

/// Checks what stays of a turn that has ended, and the request of the next one.
fn check(world: &mut World, keep: Keep, end: End, owner: Owner) {
    assert_eq!(world.session, world.folded());
    let completed = kinds(&world.journal)
        .iter()
        .any(|kind| kind == "RunCompleted");
    let counted = counts(world);
    let context = world.session.context(MAIN).unwrap();
    let messages: Vec<_> = context.messages().collect();
    let bytes: u64 = messages.iter().map(|message| message.bytes()).sum();
    assert_eq!(context.bytes, bytes);
    let is_kept = completed || (keep == Keep::Complete && counted[0] > 0);
    match is_kept {
        false => assert!(messages.is_empty(), "{messages:?}"),
        true => {
            let mut expected = counted;
            let held = held(&messages);
            if owner == Owner::OfFork {
                // A copy does not inherit what no reply has seen.
                expected[2] = held[2];
            }
            assert_eq!(held, expected, "{messages:?}");
            assert_eq!(messages[0].said(), "Begin.");
        }
    }
    if end != End::Interrupted || world.session.active_run().is_none() {
        assert!(world.session.active_run().is_none());
        world.command(turn("And now?").into());
    }
    let request = request(world);
    check_request(&request);
    let newest = request.iter().rev().find(|it| it.said() == "And now?");
    assert!(newest.is_some(), "{request:?}");
    let lost = |it: &Arc<Message>| it.text().contains("its messages are not kept");
    if is_kept {
        assert!(
            !request.iter().any(lost),
            "its effects are in it: {request:?}"
        );
    }
}

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let tool = prop::sample::select(vec![
        "look",
        "put",
        "send",
        "exec",
        "pay",
        "peek",
        "scratchpad",
    ]);
    let tools = prop::collection::vec(tool, 1..4);
    let round = (tools, any::<bool>(), prop::bool::weighted(0.2));
    let round = round.prop_map(|(tools, is_steered, is_lost)| Round {
        tools,
        is_steered,
        is_lost,
    });
    prop::collection::vec(round, 3)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_turn_may_end_at_any_event_in_any_way(rounds in rounds()) {
        for keep in [Keep::Nothing, Keep::Complete] {
            let (world, ends) = played(&rounds, keep);
            // Owners, checkpoints and copies begin where a transition ends.
            for &events in &ends {
                for owner in [Owner::Same, Owner::Next, Owner::OfCheckpoint, Owner::OfFork] {
                    for way in ENDS {
                        let mut cut = cut(&world, events, owner);
                        if cut.session.runs.is_empty() {
                            continue;
                        }
                        end(&mut cut, way);
                        check(&mut cut, keep, way, owner);
                    }
                }
            }
        }
    }
}

fn three_rounds() -> Vec<Round> {
    let round = |tools: &[&'static str], is_steered| Round {
        tools: tools.to_vec(),
        is_steered,
        is_lost: false,
    };
    vec![
        round(&["look", "send"], false),
        round(&["put"], true),
        round(&["look"], false),
    ]
}

/// The roles of the messages in short: U user, A the model, T a result, ? one without an outcome, I one of an
/// interrupted call.
fn letters(world: &World) -> String {
    let context = world.session.context(MAIN).unwrap();
    let letter = |message: &Message| match message.role {
        Role::User => 'U',
        Role::Assistant => 'A',
        Role::Tool if message.text().starts_with("outcome unknown") => '?',
        Role::Tool if message.text().starts_with("interrupted") => 'I',
        _ => 'T',
    };
    context.messages().map(letter).collect()
}

/// What a context holds by the moment and the way of the end of a turn with three tool turns, for people to read.
#[test]
fn what_stays_is_a_table() {
    let mut rows = Vec::new();
    for keep in [Keep::Nothing, Keep::Complete] {
        let (world, ends) = played(&three_rounds(), keep);
        let names = kinds(&world.journal);
        println!(
            "{keep:?}: after | {}",
            ENDS.map(|end| format!("{end:?}")).join(" | ")
        );
        for events in ends.into_iter().filter(|events| *events > 1) {
            let held = ENDS.map(|way| {
                let mut cut = cut(&world, events, Owner::Same);
                end(&mut cut, way);
                // An interruption has begun the next turn, which has said nothing yet.
                letters(&cut)
            });
            println!(
                "{events:>3} {:<16} | {}",
                names[events - 1],
                held.join(" | ")
            );
            rows.push((keep, held));
        }
    }
    let whole = "UATTATUATA";
    for (keep, [completed, others @ ..]) in &rows {
        assert!(completed.ends_with('A'), "{completed}");
        for held in others {
            let is_ended = held.len() == completed.len();
            assert!(
                *keep == Keep::Complete || held.is_empty() || is_ended,
                "{held}"
            );
        }
    }
    // The calls of the first reply are under way: one that reads, and one with side effects.
    let is_first = |held: &[String; 5]| held[2] == "UAI?";
    let mut kept = rows.iter().filter(|(keep, _)| *keep == Keep::Complete);
    let (_, first) = kept
        .find(|(_, held)| is_first(held))
        .expect("the first reply");
    assert_eq!(first[1..], ["UAI?"; 4]);
    let (_, last) = rows.last().unwrap();
    assert!(last.iter().all(|held| held == whole), "{last:?}");
}

#[test]
fn a_turn_without_a_reply_keeps_nothing_and_names_what_was_said() {
    let mut world = World::new();
    world.command(keeping("Begin.", Keep::Complete).into());
    say(&mut world, "in German");
    world.fail(1, failure());
    assert_eq!(said(&world), [""; 0]);
    let failure = world.run().end.failure.clone().unwrap();
    assert!(failure.message.contains("\"in German\""), "{failure:?}");
}

#[test]
fn what_a_person_said_stays_with_a_turn_that_is_kept() {
    let mut world = World::new();
    world.command(keeping("Begin.", Keep::Complete).into());
    world.reply(1, "I look.", &[call("a", "look")]);
    say(&mut world, "in German");
    world.fail(1, failure());
    let last = said(&world).pop();
    assert_eq!(last.as_deref(), Some("user: in German"));
    let failure = world.run().end.failure.clone().unwrap();
    assert_eq!(failure.message, "the model is gone");
}

#[test]
fn the_notes_of_a_turn_stay_with_its_messages() {
    for (keep, stay) in [(Keep::Complete, true), (Keep::Nothing, false)] {
        let mut world = World::new();
        world.command(keeping("Begin.", keep).into());
        world.reply(1, "", &[call("a", "scratchpad")]);
        world.fail(1, failure());
        let context = world.session.context(MAIN).unwrap();
        assert_eq!(context.notes.contains("a note"), stay, "{keep:?}");
        assert_eq!(context.turns, 0, "it did not complete");
    }
}

/// A question whose answer is only an error costs, and says nothing.
#[test]
fn a_reply_that_says_nothing_is_not_kept() {
    let mut world = World::new();
    world.command(keeping("Begin.", Keep::Complete).into());
    world.reply(1, "I look.", &[call("a", "look")]);
    world.result(1, 0, "seen");
    let attempt = world.attempt(1);
    let running = world.session.attempt(attempt).unwrap();
    let seen = (running.tool_turns, running.newest_op());
    let mut report = crate::world::report_reply(attempt, seen, "", &[]);
    if let Input::Report {
        failure: failed, ..
    } = &mut report
    {
        *failed = Some(failure());
    }
    world.decide(report);
    assert_eq!(
        said(&world),
        ["user: Begin.", "assistant: I look.", "tool: seen"]
    );
    world.command(turn("And now?").into());
    check_request(&request(&world));
}

#[test]
fn an_end_names_a_result_for_each_open_call_and_for_no_other() {
    let mut world = World::new();
    world.command(keeping("Begin.", Keep::Complete).into());
    world.reply(1, "", &[call("a", "look"), call("b", "send")]);
    world.result(1, 0, "seen");
    let (attempt, open) = (world.attempt(1), world.call(1, 1));
    let context = world.session.context(MAIN).unwrap();
    let kept_through = context.conversation.behind.last().unwrap().number;
    world.foreign(EventKind::StepSkipped(StepSkipped {
        run: attempt.run,
        step: attempt.step,
        reason: String::new(),
        by_person: false,
        hook: String::new(),
    }));
    let result = |call| OpenCall {
        call,
        output: "lost".to_owned(),
    };
    let mut other = open;
    other.index = 0;
    let ended = |results: Vec<OpenCall>| {
        EventKind::RunCancelled(RunCancelled {
            run: attempt.run,
            reason: String::new(),
            kept_through,
            results,
        })
    };
    for results in [
        vec![],
        vec![result(other)],
        vec![result(open), result(other)],
    ] {
        crate::illegal::refusal(&world.session, ended(results));
    }
    world.foreign(ended(vec![result(open)]));
    let said = said(&world);
    assert_eq!(said[2..], ["tool: seen", "tool: lost"]);
}

fn read(world: &World, path: &str, digest: &str) -> CallFinished {
    CallFinished {
        file: Some(FileState {
            path: path.to_owned(),
            digest: digest.to_owned(),
        }),
        ..finished(world.call(1, 0), "seen", "")
    }
}

fn seen(world: &World, path: &str) -> Option<String> {
    let seen = world.session.seen_file(world.attempt(1), path);
    seen.map(str::to_owned)
}

#[test]
fn a_conversation_knows_the_files_that_its_model_has_seen() {
    for (keep, stays) in [(Keep::Complete, true), (Keep::Nothing, false)] {
        let mut world = World::new();
        world.command(keeping("Begin.", keep).into());
        for digest in ["1", "2"] {
            world.reply(1, "", &[call(digest, "look")]);
            let result = read(&world, "a.rs", digest);
            world.report(1, vec![result]);
            assert_eq!(seen(&world, "a.rs").as_deref(), Some(digest));
            assert_eq!(seen(&world, "b.rs"), None);
        }
        world.fail(1, failure());
        world.command(turn("And now?").into());
        assert_eq!(seen(&world, "a.rs").is_some(), stays, "{keep:?}");
        world.reply(1, "", &[call("c", "look")]);
        let result = read(&world, "b.rs", "3");
        world.report(1, vec![result]);
        world.reply(1, "Done.", &[]);
        assert_eq!(world.session, world.folded());
        world.command(turn("And then?").into());
        assert_eq!(seen(&world, "b.rs").as_deref(), Some("3"));
        world.reply(1, "Done.", &[]);
        // A message is gone, and with it perhaps what the model has seen.
        world.command(Command::from(ChangeContext {
            ops: vec![ContextOp::Pop],
            ..ChangeContext::default()
        }));
        world.command(turn("Well?").into());
        assert_eq!(seen(&world, "b.rs"), None);
    }
}

#[test]
fn a_run_knows_whether_a_person_answers() {
    let mut world = World::new();
    let followed = SubmitTurn {
        answers_questions: true,
        ..turn("hello")
    };
    world.command(followed.clone().into());
    assert!(world.run().answers_questions);
    world.command(Command::from(SubmitTurn {
        when_busy: WhenBusy::Queue,
        ..followed
    }));
    world.reply(1, "hi", &[]);
    assert!(world.run().answers_questions, "one that was queued");
    world.reply(1, "hi", &[]);
    world.command(turn("hello").into());
    assert!(!world.run().answers_questions);
}
