//! Compactions as their events make them: what gives way, what they cost, what people are asked, and what
//! stays of them after a turn.

use crate::turns::{said, sent, submit};
use crate::world::{World, chain, kinds, look, model_step, report_reply};
use cairn_engine::command::{
    ChangeContext, Command, CompactContext, ContextOp, Settlement, WhenFull,
};
use cairn_engine::conversation::{CompactedMessages, CompactionKind, ConversationRef, Measured};
use cairn_engine::decide::Input;
use cairn_engine::event::{
    self, AttemptRef, Budget, CommandReceived, CompactionRequested, ContextChanged,
    ContextCompacted, ContextFull, Event, EventKind, StartedTurn, SummaryAsked, WaitReason,
};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::{Message, Role, Usage};
use cairn_engine::pending::{Asked, PendingId, pending, reasons};
use cairn_engine::session::{Attempt, FullCause, MAIN, Purpose, RunStatus, StepNo};
use proptest::prelude::*;

/// Estimated tokens of a question for a summary.
const ESTIMATE: u64 = 500;

fn paid() -> Usage {
    Usage {
        input_tokens: 40,
        output_tokens: 4,
        model_calls: 1,
        ..Usage::default()
    }
}

fn failure() -> Failure {
    Failure::new(FailureKind::Llm, "Server", "the model is gone")
}

/// A context with two turns, messages 1 to 4, and a third turn that has replied twice: what the person said
/// is message 5, and a reply, its result and another reply are 6 to 8.
fn in_third_turn(mut world: World) -> World {
    submit(&mut world, "first");
    world.reply(1, "one", &[]);
    submit(&mut world, "second");
    world.reply(1, "two", &[]);
    submit(&mut world, "third");
    world.reply(1, "I look.", &[look()]);
    world.result(1, 0, "seen");
    world.reply(1, "I look again.", &[look()]);
    world
}

fn before(through: u32) -> CompactedMessages {
    CompactedMessages {
        through,
        ..CompactedMessages::default()
    }
}

fn behind(after: u32, through: u32) -> CompactedMessages {
    CompactedMessages {
        behind_mark: true,
        after,
        ..before(through)
    }
}

fn attempt(world: &World) -> &Attempt {
    world.session.attempt(world.attempt(1)).unwrap()
}

fn compacted(
    world: &World,
    messages: CompactedMessages,
    kind: CompactionKind,
    text: &str,
) -> ContextCompacted {
    let attempt = world.attempt(1);
    let turn = world.session.turn(attempt);
    let context = turn.map(|turn| turn.context.clone()).unwrap_or_default();
    let version = match messages.behind_mark {
        true => 0,
        false => world.session.context(&context).unwrap().version + 1,
    };
    ContextCompacted {
        attempt,
        context,
        messages,
        kind,
        text: text.to_owned(),
        usage: paid(),
        provider: "test".to_owned(),
        model: "test-model".to_owned(),
        duration_ms: 5,
        version,
        replaced: 2,
        tokens_before: 100,
        tokens_after: 10,
    }
}

fn compact(world: &mut World, messages: CompactedMessages, kind: CompactionKind, text: &str) {
    let compacted = compacted(world, messages, kind, text);
    world.foreign(compacted.into());
}

fn asked(world: &World, messages: CompactedMessages, again: bool) -> EventKind {
    let asked = SummaryAsked {
        attempt: world.attempt(1),
        messages,
        prompt: "Sum it up.".to_owned(),
        estimate: ESTIMATE,
        max_output_tokens: 100,
        again,
    };
    asked.into()
}

fn ask(world: &mut World, messages: CompactedMessages, again: bool) {
    let asked = asked(world, messages, again);
    world.foreign(asked);
}

fn full(world: &mut World, cause: FullCause) {
    let full = ContextFull {
        attempt: world.attempt(1),
        cause,
        tokens: 900,
        window: 800,
        failure: (cause == FullCause::NoSummary).then(failure),
        usage: paid(),
        provider: "test".to_owned(),
        model: "test-model".to_owned(),
        duration_ms: 5,
    };
    world.foreign(full.into());
}

fn change(op: ContextOp) -> Command {
    Command::from(ChangeContext {
        ops: vec![op],
        ..ChangeContext::default()
    })
}

fn is_refused(world: &World, kind: EventKind) -> bool {
    let event = Event {
        at: world.now,
        answers: 0,
        principal: None,
        kind,
    };
    let mut session = world.session.clone();
    session.apply(session.seq + 1, &event).is_err()
}

#[test]
fn what_a_turn_keeps_follows_what_stands_for_older_messages() {
    use CompactionKind::{History, Summary};
    let mut world = in_third_turn(World::new());
    let version = world.session.context(MAIN).unwrap().version;
    compact(&mut world, before(2), History, "view");
    let shown = [
        "view",
        "second",
        "two",
        "third",
        "I look.",
        "seen",
        "I look again.",
    ];
    assert_eq!(sent(&world), shown);
    compact(&mut world, behind(5, 7), Summary, "own summary");
    let shown = [
        "view",
        "second",
        "two",
        "third",
        "own summary",
        "I look again.",
    ];
    assert_eq!(sent(&world), shown);
    let context = world.session.context(MAIN).unwrap();
    assert_eq!(context.version, version + 1, "behind the mark is no change");
    let bytes: u64 = context.messages().map(Message::bytes).sum();
    assert_eq!(context.bytes, bytes);
    assert!(context.untold_compaction);
    let running = attempt(&world);
    assert_eq!((running.rewrites, running.compacted_at), (2, Some(2)));
    world.result(1, 0, "seen again");
    world.reply(1, "done", &[]);
    let kept = [
        "assistant: view",
        "user: second",
        "assistant: two",
        "user: third",
        "user: own summary",
        "assistant: I look again.",
        "tool: seen again",
        "assistant: done",
    ];
    assert_eq!(said(&world), kept);
    assert!(!world.session.context(MAIN).unwrap().untold_compaction);
    assert_eq!(world.session, world.folded());
}

#[test]
fn a_failed_turn_keeps_what_was_compacted_before_it_and_the_next_one_tells() {
    let mut world = in_third_turn(World::new());
    compact(&mut world, before(2), CompactionKind::History, "view");
    compact(
        &mut world,
        behind(5, 7),
        CompactionKind::History,
        "own view",
    );
    world.fail(1, failure());
    assert_eq!(
        said(&world),
        ["assistant: view", "user: second", "assistant: two"]
    );
    for _ in 0..2 {
        assert!(world.session.context(MAIN).unwrap().untold_compaction);
        submit(&mut world, "fourth");
        assert!(world.run().turn.as_ref().unwrap().tells_compaction);
        assert!(!world.session.context(MAIN).unwrap().untold_compaction);
        world.fail(1, failure());
    }
    submit(&mut world, "fifth");
    world.reply(1, "five", &[]);
    assert!(!world.session.context(MAIN).unwrap().untold_compaction);
    assert_eq!(world.session, world.folded());
}

/// All that an attempt at a step says stands behind a mark.
#[test]
fn a_summary_in_a_step_is_charged_to_it() {
    let mut world = World::with_plan(chain(vec![model_step("one")]));
    for _ in 0..2 {
        world.reply(1, "I look.", &[look()]);
        world.result(1, 0, "seen");
    }
    let conversation = &attempt(&world).conversation;
    let first: Vec<u32> = conversation.behind.iter().map(|it| it.number).collect();
    ask(&mut world, behind(0, first[1]), false);
    let task = attempt(&world).summary.clone().unwrap();
    assert_eq!((task.estimate, task.by_model), (ESTIMATE, false));
    let totals = |world: &World| {
        let step = world.session.step(world.attempt(1)).unwrap();
        [step.usage, world.run().spent.usage, world.session.usage]
    };
    let expected = totals(&world).map(|mut usage| {
        usage.add(&paid());
        usage
    });
    compact(
        &mut world,
        behind(0, first[1]),
        CompactionKind::Summary,
        "summary",
    );
    assert_eq!(totals(&world), expected);
    assert_eq!(attempt(&world).summary, None);
    let conversation = &attempt(&world).conversation;
    let texts = conversation.behind.iter().map(|it| it.message.text());
    assert_eq!(texts.collect::<Vec<_>>(), ["summary", "I look."]);
    assert_eq!(conversation.behind[0].message.role, Role::User);
    let kind = Some(CompactionKind::Summary);
    assert_eq!(conversation.behind[0].compaction, kind);
    let mut before_mark = compacted(&world, behind(0, 0), CompactionKind::History, "view");
    before_mark.messages = before(first[1]);
    assert!(is_refused(&world, before_mark.into()));
}

#[test]
fn a_compaction_because_of_bytes_leaves_room_for_another_one() {
    let mut world = in_third_turn(World::new());
    let bytes = ContextCompacted {
        tokens_before: 0,
        tokens_after: 0,
        ..compacted(&world, before(2), CompactionKind::History, "view")
    };
    world.foreign(bytes.into());
    assert_eq!(attempt(&world).compacted_at, None);
    let of_another_version = compacted(&world, before(4), CompactionKind::History, "view");
    let of_another_version = ContextCompacted {
        version: of_another_version.version + 1,
        ..of_another_version
    };
    assert!(is_refused(&world, of_another_version.into()));
}

/// What ends the question for a summary, each in its way.
fn ends(attempt: AttemptRef) -> [EventKind; 5] {
    let (run, step) = (attempt.run, attempt.step);
    let paused = event::RunPaused {
        run,
        reason: String::new(),
    };
    let out_of_time = event::BudgetExhausted {
        run,
        budget: Budget::Time,
    };
    let completed = event::StepCompleted {
        attempt,
        response: String::new(),
        summary: String::new(),
    };
    let failed = event::StepFailed {
        attempt,
        failure: failure(),
    };
    let skipped = event::StepSkipped {
        run,
        step,
        reason: String::new(),
        by_person: true,
        hook: String::new(),
    };
    [
        paused.into(),
        out_of_time.into(),
        completed.into(),
        failed.into(),
        skipped.into(),
    ]
}

/// Tokens that went into models: for the step, the run and the session.
fn tokens(world: &World) -> [u64; 3] {
    let step = world.session.step(world.attempt(1)).unwrap();
    let all = [step.usage, world.run().spent.usage, world.session.usage];
    all.map(|usage| usage.input_tokens)
}

#[test]
fn a_summary_whose_answer_does_not_come_is_charged_as_it_was_estimated() {
    let mut world = in_third_turn(World::new());
    world.result(1, 0, "seen again");
    let name = world.attempt(1);
    ask(&mut world, before(2), false);
    let began = tokens(&world);
    let lost = |times: u64| began.map(|tokens| tokens + times * ESTIMATE);
    // It was not asked, because it did not fit.
    ask(&mut world, before(4), false);
    assert_eq!(tokens(&world), lost(0));
    let rewrites = attempt(&world).rewrites;
    ask(&mut world, before(4), true);
    assert_eq!(tokens(&world), lost(1));
    assert!(attempt(&world).rewrites > rewrites);
    for end in ends(name) {
        let mut ended = world.clone();
        ended.foreign(end.clone());
        assert_eq!(tokens(&ended), lost(2), "{end:?}");
        let running = ended.session.attempt(name);
        assert!(running.is_none_or(|it| it.summary.is_none()), "{end:?}");
    }
    let other_budget = event::BudgetExhausted {
        run: name.run,
        budget: Budget::Tokens,
    };
    world.foreign(other_budget.into());
    assert_eq!(tokens(&world), lost(1));
    assert!(attempt(&world).summary.is_some());
    // A list in its place is no answer.
    compact(&mut world, before(2), CompactionKind::History, "view");
    let listed = lost(2).map(|tokens| tokens + paid().input_tokens);
    assert_eq!(tokens(&world), listed);
}

#[test]
fn a_summary_is_asked_of_messages_that_are_there() {
    let world = in_third_turn(World::new());
    for messages in [before(8), before(0), behind(0, 3), behind(7, 6)] {
        assert!(
            is_refused(&world, asked(&world, messages, false)),
            "{messages:?}"
        );
    }
}

#[test]
fn a_person_is_asked_about_a_request_that_does_not_fit() {
    let mut world = in_third_turn(World::new());
    world.result(1, 0, "seen again");
    let since = world.now;
    full(&mut world, FullCause::NoSummary);
    world.now += 1_000;
    assert!(
        world.outstanding().is_empty(),
        "no executor keeps a slot for it"
    );
    assert!(world.run().asks_person());
    let waits = RunStatus::Waiting(WaitReason::Context);
    assert_eq!(kinds(&world.decide(Input::Tick)), ["RunWaiting"]);
    assert_eq!(world.run().status, waits);
    let open = pending(&world.session).remove(0);
    assert_eq!((open.reason(), open.since), (WaitReason::Context, since));
    let expected = Asked::Context {
        name: world.attempt(1),
        cause: FullCause::NoSummary,
        tokens: 900,
        window: 800,
        failure: Some(failure()),
    };
    assert_eq!(open.asked, expected);
    let all: Vec<_> = reasons(&world.session).collect();
    assert_eq!(all, [(WaitReason::Context, since)]);
    assert_eq!(world.session, world.folded());
}

#[test]
fn the_name_of_the_question_is_read_back() {
    for text in ["context-3.1.1", "context-3.1.2-7"] {
        let id = PendingId::parse(text).unwrap();
        assert_eq!(id.to_string(), text);
        assert_eq!((id.run(), id.call()), (3, None));
        assert_eq!(id.attempt().map(|it| it.step), Some(StepNo::from(1)));
    }
    for text in [
        "context-3.1",
        "context-3.1.1.0.0",
        "context-3.1.1-1",
        "context-",
    ] {
        assert_eq!(PendingId::parse(text), None, "{text}");
    }
}

#[test]
fn a_decision_about_a_full_context_lets_it_be_compacted_anew() {
    let mut world = in_third_turn(World::new());
    world.result(1, 0, "seen again");
    compact(&mut world, before(2), CompactionKind::History, "view");
    full(&mut world, FullCause::NothingToCompact);
    let decided = |world: &World, id: &str, settlement: Settlement| -> EventKind {
        assert_eq!(pending(&world.session).len(), 1);
        let decided = event::Decided {
            pending: PendingId::parse(id).unwrap(),
            settlement,
            settle_after: 0,
            responses: String::new(),
        };
        decided.into()
    };
    let text = "Keep the numbers.".to_owned();
    let answer = decided(
        &world,
        "context-3.1.1",
        Settlement::Answer { text: text.clone() },
    );
    world.foreign(answer.clone());
    let running = attempt(&world);
    assert_eq!((&running.full, running.compacted_at), (&None, None));
    assert_eq!(running.summary_prompt, Some(text));
    assert!(is_refused(&world, answer.clone()), "it is answered");
    full(&mut world, FullCause::DoesNotShrink);
    assert!(is_refused(&world, answer), "this is another question");
    let id = "context-3.1.1-2";
    let done = Settlement::Done {
        output: String::new(),
    };
    for settlement in [done, Settlement::Approve] {
        assert!(is_refused(&world, decided(&world, id, settlement)));
    }
    let retry = decided(&world, id, Settlement::Retry);
    world.foreign(retry);
    let running = attempt(&world);
    assert_eq!((&running.full, &running.summary_prompt), (&None, &None));
    assert_eq!(running.times_full, 2);
    assert_eq!(world.session, world.folded());
}

#[test]
fn nobody_is_asked_about_a_summary_that_the_model_wanted() {
    let mut world = in_third_turn(World::new());
    world.result(1, 0, "seen again");
    let requested = CompactionRequested {
        attempt: world.attempt(1),
        keep_in_mind: "the numbers".to_owned(),
    };
    world.foreign(requested.into());
    assert_eq!(
        attempt(&world).wants_compaction.as_deref(),
        Some("the numbers")
    );
    ask(&mut world, before(2), false);
    assert!(attempt(&world).summary.as_ref().unwrap().by_model);
    let before_answer = world.session.usage;
    let mut made = world.clone();
    compact(&mut made, before(2), CompactionKind::Summary, "summary");
    assert_eq!(attempt(&made).wants_compaction, None);
    full(&mut world, FullCause::DoesNotShrink);
    let running = attempt(&world);
    assert_eq!(
        (&running.summary, &running.wants_compaction),
        (&None, &None)
    );
    assert_eq!((&running.full, running.times_full), (&None, 0));
    let mut expected = before_answer;
    expected.add(&paid());
    assert_eq!(world.session.usage, expected);
    assert!(pending(&world.session).is_empty());
}

/// It is asked about messages that no request of the turn has.
#[test]
fn a_summary_reads_beyond_the_window() {
    let mut world = World::new();
    submit(&mut world, "first");
    world.reply(1, "one", &[]);
    submit(&mut world, "second");
    world.reply(1, "two", &[]);
    world.command(change(ContextOp::SetWindow(Some(1))));
    submit(&mut world, "third");
    assert_eq!(sent(&world), ["two", "third"]);
    ask(&mut world, before(3), false);
    assert_eq!(sent(&world), ["first", "one", "second", "two", "third"]);
    compact(&mut world, before(3), CompactionKind::Summary, "summary");
    assert_eq!(sent(&world), ["summary", "two", "third"]);
}

#[test]
fn a_reply_says_how_many_tokens_its_request_had() {
    let mut world = World::new();
    submit(&mut world, "first");
    let name = world.attempt(1);
    let ops = world.session.attempt(name).unwrap().newest_op();
    let mut report = report_reply(name, (0, ops), "one", &[]);
    let Input::Report { reply, .. } = &mut report else {
        panic!("a report");
    };
    let reply = reply.as_mut().unwrap();
    (reply.estimated_tokens, reply.window_tokens) = (80, 8_000);
    world.decide(report);
    let learned = world.session.estimates.of("");
    assert_eq!((learned.permille, learned.window), (1_250, 8_000));
    assert_eq!(world.session.result_bytes(1, 32 * 1024), 8_000);
    let measured = |world: &World| -> Option<Measured> {
        let context = world.session.context(MAIN).unwrap();
        context.conversation.measured.clone()
    };
    let first = measured(&world).unwrap();
    assert_eq!((first.through, first.model.as_str()), (1, ""));
    assert!((1..=100).contains(&first.tokens), "{first:?}");
    submit(&mut world, "second");
    let sent = world.session.conversation(world.attempt(1)).unwrap();
    assert_eq!(sent.measured, Some(first.clone()));
    let newer: Vec<_> = sent.newer_than(first.through).collect();
    let newer: Vec<_> = newer.iter().map(|it| it.message.text()).collect();
    assert_eq!(newer, ["one", "second"]);
    compact(&mut world, before(2), CompactionKind::History, "view");
    assert_eq!(measured(&world), None);
    assert_eq!(world.session, world.folded());
}

/// Applies an event that answers the oldest command.
fn answering(world: &mut World, kind: EventKind) {
    let answers = *world.session.commands.keys().next().unwrap();
    let event = Event {
        at: world.now,
        answers,
        principal: None,
        kind,
    };
    world.session.apply(world.session.seq + 1, &event).unwrap();
    world.journal.push(event);
}

fn receive(world: &mut World, command: CompactContext) {
    let received = CommandReceived {
        request_id: "request".to_owned(),
        command: command.into(),
    };
    world.foreign(received.into());
}

/// A run that compacts the context begins: its command, its step, and the question for a summary.
fn begin_compaction(world: &mut World, command: CompactContext) -> AttemptRef {
    receive(world, command);
    let run = world.session.runs.len() as u32 + 1;
    let started = event::RunStarted {
        run,
        goal: "compact".to_owned(),
        limits: world.limits,
        model: String::new(),
        trace_parent: String::new(),
        turn: Some(StartedTurn {
            context: MAIN.to_owned(),
            queued: 0,
            turn_index: 0,
        }),
        agent: None,
        hooks: Vec::new(),
    };
    answering(world, started.into());
    let attempt = AttemptRef {
        run,
        step: 1.into(),
        attempt: 1,
    };
    let step = event::StepStarted {
        attempt,
        tool_effect: None,
        tool_digest: String::new(),
        tool_previews: false,
        context: String::new(),
        tool_hooked: false,
    };
    world.foreign(step.into());
    ask(world, before(2), false);
    attempt
}

fn end_compaction(world: &mut World, attempt: AttemptRef) {
    let step = event::StepCompleted {
        attempt,
        response: String::new(),
        summary: String::new(),
    };
    let run = event::RunCompleted {
        run: attempt.run,
        answer: String::new(),
        kept_through: 0,
        results: Vec::new(),
        journal_permille: 0,
    };
    world.foreign(step.into());
    world.foreign(run.into());
}

#[test]
fn a_run_that_compacts_is_no_turn_and_the_next_turn_tells() {
    let mut world = in_third_turn(World::new());
    world.fail(1, failure());
    let before_run = world.session.context(MAIN).unwrap().clone();
    let command = CompactContext {
        keep: 2,
        ..CompactContext::default()
    };
    let attempt = begin_compaction(&mut world, command.clone());
    let turn = world.run().turn.clone().unwrap();
    assert_eq!(turn.purpose, Purpose::Compact(command));
    assert_eq!(world.run().goal, "compact");
    compact(&mut world, before(2), CompactionKind::Summary, "summary");
    end_compaction(&mut world, attempt);
    let left = ["user: summary", "user: second", "assistant: two"];
    assert_eq!(said(&world), left);
    let context = world.session.context(MAIN).unwrap();
    assert_eq!(context.version, before_run.version + 1);
    assert_eq!(context.turns, before_run.turns);
    assert_eq!(context.notes, before_run.notes);
    assert_eq!(context.lost_calls, before_run.lost_calls);
    assert!(context.untold_compaction);
    assert_eq!(world.session, world.folded());
    submit(&mut world, "fourth");
    assert!(world.run().turn.as_ref().unwrap().tells_compaction);
}

#[test]
fn a_context_with_nothing_to_compact_keeps_its_version() {
    let mut world = World::new();
    world.command(change(ContextOp::Append(Message::user("only"))));
    let version = world.session.context(MAIN).unwrap().version;
    let unchanged = |version| ContextChanged {
        conversation: ConversationRef::Context(MAIN.to_owned()),
        ops: Vec::new(),
        version,
        popped: None,
        is_steering: false,
    };
    receive(&mut world, CompactContext::default());
    answering(&mut world, unchanged(version).into());
    assert!(world.session.commands.is_empty());
    assert_eq!(world.session.context(MAIN).unwrap().version, version);
    // Any other change counts.
    assert!(is_refused(&world, unchanged(version).into()));
    assert!(!is_refused(&world, unchanged(version + 1).into()));
}

#[test]
fn a_changed_context_lets_a_run_continue_that_was_full() {
    let ops = [
        ContextOp::Pop,
        ContextOp::SetWindow(Some(1)),
        ContextOp::SetWhenFull(None),
    ];
    for op in ops {
        let mut world = in_third_turn(World::new());
        world.result(1, 0, "seen again");
        full(&mut world, FullCause::NothingToCompact);
        world.decide(Input::Tick);
        let events = kinds(&world.command(change(op.clone())));
        assert_eq!(events, ["ContextChanged", "RunResumed"], "{op:?}");
        assert_eq!(attempt(&world).full, None);
        assert_eq!(world.run().status, RunStatus::Running);
        assert_eq!(world.session, world.folded());
    }
}

/// What happens while a turn waits for a budget.
#[derive(Debug, Clone)]
enum Step {
    /// A summary is asked for, if the messages are there.
    Ask(CompactedMessages),
    /// The model wrote it.
    Answer,
    Full,
    Change(ContextOp),
}

fn changes() -> impl Strategy<Value = ContextOp> {
    let said = || Just(Message::user("said by a client"));
    let index = || 0..6_u32;
    prop_oneof![
        2 => said().prop_map(ContextOp::Append),
        2 => (index(), said()).prop_map(|(index, message)| ContextOp::Update { index, message }),
        2 => (index(), said()).prop_map(|(index, message)| ContextOp::Insert { index, message }),
        2 => index().prop_map(|index| ContextOp::Remove { index }),
        1 => Just(ContextOp::Pop),
        1 => Just(ContextOp::Retain(Role::User)),
        1 => Just(ContextOp::Clear),
        1 => prop::option::of(1..4_u32).prop_map(ContextOp::SetWindow),
        1 => prop::option::of(Just(WhenFull::Refuse)).prop_map(ContextOp::SetWhenFull),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let own = behind(5, 7);
    prop_oneof![
        4 => (1..12_u32).prop_map(|through| Step::Ask(before(through))),
        2 => Just(Step::Ask(own)),
        1 => (1..12_u32).prop_map(|through| Step::Ask(CompactedMessages {
            with_compressed: true,
            ..before(through)
        })),
        3 => Just(Step::Answer),
        1 => Just(Step::Full),
        6 => changes().prop_map(Step::Change),
    ]
}

/// The turn has used up its tokens, and the calls of its last reply have ended.
fn over_budget() -> World {
    let mut world = World::new();
    world.limits.budgets[Budget::Tokens] = 200;
    let mut world = in_third_turn(world);
    assert_eq!(world.run().status, RunStatus::Waiting(WaitReason::Budget));
    world.result(1, 0, "seen again");
    world
}

impl World {
    fn play_beside_summary(&mut self, step: &Step) {
        let pending = attempt(self).summary.clone();
        match step {
            Step::Ask(messages) => {
                let said = &self.session.context(MAIN).unwrap().conversation;
                if said.to_compact(messages).is_ok() {
                    ask(self, *messages, pending.is_some());
                }
            }
            Step::Answer => {
                if let Some(task) = pending {
                    compact(self, task.messages, CompactionKind::Summary, "summary");
                }
            }
            Step::Full => full(self, FullCause::NothingToCompact),
            Step::Change(op) => {
                let tokens = self.session.usage.input_tokens;
                let events = self.command(change(op.clone()));
                if kinds(&events)[0] == "CommandRefused" {
                    return;
                }
                let running = attempt(self);
                assert_eq!((&running.full, running.compacted_at), (&None, None));
                let is_left = pending.clone().filter(|task| task.messages.behind_mark);
                assert_eq!(running.summary, is_left, "{op:?}");
                let lost = pending.is_some() && is_left.is_none();
                let charged = self.session.usage.input_tokens - tokens;
                assert_eq!(charged, if lost { ESTIMATE } else { 0 }, "{op:?}");
            }
        }
        // What is pending can be answered at any time, and an executor can be started.
        if let Some(task) = &attempt(self).summary {
            let said = &self.session.context(MAIN).unwrap().conversation;
            assert!(said.to_compact(&task.messages).is_ok(), "{task:?}");
        }
        let sent = self.session.conversation(self.attempt(1)).unwrap();
        if let Some(task) = &attempt(self).summary {
            assert!(sent.to_compact(&task.messages).is_ok(), "{task:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn clients_may_change_a_context_beside_a_pending_summary(
        steps in prop::collection::vec(steps(), 1..16),
    ) {
        let mut world = over_budget();
        for step in &steps {
            world.play_beside_summary(step);
        }
        prop_assert_eq!(&world.folded(), &world.session);
        world.play_beside_summary(&Step::Answer);
        world.play_beside_summary(&Step::Change(ContextOp::Append(Message::user("the last"))));
        world.answer("budget-3", Settlement::Retry);
        prop_assert_eq!(world.run().status, RunStatus::Running);
        world.reply(1, "done", &[]);
        prop_assert_eq!(world.run().status, RunStatus::Completed);
        prop_assert_eq!(&world.folded(), &world.session);
    }
}
