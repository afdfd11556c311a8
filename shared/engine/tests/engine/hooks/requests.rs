//! Requests to the model, their retries, their replies and compactions wait for hooks.

use super::{block, blocked, check, compacting, failure, idle, outcome, world};
use crate::turns::{said, submit};
use crate::world::{World, complete, graph, hooked, kinds, look, model_step, report_reply, send};
use cairn_engine::command::{LimitOverrides, SendMessage};
use cairn_engine::conversation::Op as Change;
use cairn_engine::decide::{Input, Retry};
use cairn_engine::event::{Budget, CommandReceived, EventKind};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::hooks::{Gate, Mutation, Payload, Point, Verdict};
use cairn_engine::message::Message;
use cairn_engine::outstanding::Work;
use cairn_engine::session::{PerBudget, RunStatus, StepStatus};

#[test]
fn each_request_is_asked_about_once() {
    let mut world = world(&[Point::PreRequest]);
    let name = world.attempt(1);
    assert_eq!(world.gate(), Gate::of_attempt(Point::PreRequest, name, 0));
    let reply = report_reply(name, (0, 0), "early", &[]);
    assert!(
        world.clone().try_decide(reply).is_err(),
        "no model was asked"
    );
    let events = world.hook(Point::PreRequest, Verdict::Proceed);
    assert_eq!(events, ["HooksAnswered"]);
    assert!(world.session.open_gates().is_empty());
    assert!(world.outstanding().contains(&Work::RunStep(name)));
    let events = world.reply(1, "", &[look()]);
    assert_eq!(kinds(&events), ["ReplyReceived"]);
    let events = world.result(1, 0, "notes");
    assert_eq!(kinds(&events), ["CallFinished", "HooksAsked"]);
    assert_eq!(world.gate(), Gate::of_attempt(Point::PreRequest, name, 1));
    let Payload::Request(request) = world.payload() else {
        panic!("{:?}", world.gate());
    };
    let new = request.new_messages().map(|entry| entry.message.text());
    assert_eq!(
        new.collect::<Vec<_>>(),
        ["", "notes"],
        "the reply and its result"
    );
    assert_eq!(request.messages(), 3);
    // An owner that takes it over asks the same.
    let mut taken_over = world.clone();
    taken_over.decide(Input::TakenOver { holder_dead: true });
    assert_eq!(taken_over.gate(), world.gate());
    let lost = world.decide(Input::AttemptLost { attempt: name });
    assert_eq!(kinds(&lost), ["AttemptContinued"]);
    world.hook(Point::PreRequest, block());
    assert_eq!(failure(&world), blocked(Point::PreRequest));
}

#[test]
fn what_a_hook_adds_to_a_request_stays_in_the_conversation() {
    let mut world = world(&[Point::PreRequest]);
    let name = world.attempt(1);
    let more = Change::Append(Message::user("be brief"));
    let ops = Verdict::Mutate(Mutation::Ops(vec![more]));
    world.hook(Point::PreRequest, ops);
    let said = |world: &World| -> Vec<String> {
        let said = world.session.said(name);
        said.iter().map(|message| message.text()).collect()
    };
    assert!(said(&world).contains(&"be brief".to_owned()));
    world.reply(1, "well", &[look()]);
    assert!(said(&world).contains(&"be brief".to_owned()));
    check(&world);
}

/// The context has them when the turn is over, as the next turn does.
#[test]
fn what_a_hook_changes_in_a_turn_stays_in_its_context() {
    let mut world = idle(&[Point::PreRequest]);
    submit(&mut world, "hello");
    let Payload::Request(request) = world.payload() else {
        panic!("{:?}", world.gate());
    };
    let number = request.new_messages().next().unwrap().number;
    let ops = vec![
        Change::Append(Message::user("be brief")),
        Change::Append(Message::user("and loud")),
        Change::Update {
            number,
            message: Message::user("good day"),
        },
        Change::Remove { number: number + 2 },
    ];
    world.hook(Point::PreRequest, Verdict::Mutate(Mutation::Ops(ops)));
    world.reply(1, "hi", &[]);
    let expected = ["user: good day", "user: be brief", "assistant: hi"];
    assert_eq!(said(&world), expected);
    submit(&mut world, "once more");
    let Payload::Request(request) = world.payload() else {
        panic!("{:?}", world.gate());
    };
    assert_eq!(request.messages(), 4);
    let new = request.new_messages().map(|entry| entry.message.text());
    assert_eq!(new.collect::<Vec<_>>(), ["once more"]);
    check(&world);
}

#[test]
fn changes_that_do_not_fit_any_more_block() {
    let mut world = world(&[Point::PreRequest]);
    let gone = Change::Remove { number: 99 };
    let ops = Verdict::Mutate(Mutation::Ops(vec![gone]));
    world.hook(Point::PreRequest, ops);
    assert_eq!(world.run().status, RunStatus::Failed);
}

#[test]
fn a_hook_replies_in_place_of_a_model() {
    let mut world = idle(&[Point::PreRequest, Point::PostRequest]);
    submit(&mut world, "hello");
    let events = world.hook(Point::PreRequest, Verdict::Skip("no need".to_owned()));
    assert_eq!(
        events,
        [
            "HooksAnswered",
            "ReplyReceived",
            "StepCompleted",
            "RunCompleted"
        ]
    );
    assert_eq!(said(&world), ["user: hello", "assistant: no need"]);
    assert_eq!(world.session.usage.model_calls, 0);
}

/// A reply without calls ends no step, so the model would have to be asked.
#[test]
fn a_step_whose_requests_are_all_skipped_fails_and_names_the_hook() {
    let mut world = world(&[Point::PreRequest]);
    for _ in 0..=world.limits.max_tool_turns {
        world.hook(Point::PreRequest, Verdict::Skip("no need".to_owned()));
    }
    let words = "the step used all of its 10 tool turns without completing; \
                 hook 'guard' skipped the last request";
    let StepStatus::Failed { failure } = world.status(1) else {
        panic!("{:?}", world.status(1));
    };
    assert_eq!(failure.message, words);
}

#[test]
fn a_retry_waits_for_hooks() {
    let mut world = world(&[Point::OnRetry]);
    let attempt = world.attempt(1);
    let retry = |tool_turn| Input::Report {
        attempt,
        results: Vec::new(),
        unfinished: Vec::new(),
        reply: None,
        failure: None,
        full: None,
        summary: None,
        retry: Some(Box::new(Retry {
            tool_turn,
            attempt: 2,
            failure: Failure::new(FailureKind::Llm, "Server", "it is down"),
        })),
    };
    assert!(world.decide(retry(7)).is_empty(), "of another request");
    assert_eq!(kinds(&world.decide(retry(0))), ["HooksAsked"]);
    let Payload::Retry {
        attempt: 2,
        failure,
        ..
    } = world.payload()
    else {
        panic!("{:?}", world.gate());
    };
    assert_eq!(failure.reason, "Server");
    let mut blocks = world.clone();
    blocks.hook(Point::OnRetry, block());
    assert_eq!(crate::hooks::failure(&blocks), blocked(Point::OnRetry));
    assert_eq!(
        world.hook(Point::OnRetry, Verdict::Proceed),
        ["HooksAnswered"]
    );
    world.complete(1, "done");
    assert_eq!(world.run().status, RunStatus::Completed);
}

/// Each executor counts its tries from 1.
#[test]
fn a_retry_by_another_executor_is_another_question() {
    let mut world = world(&[Point::OnRetry]);
    let attempt = world.attempt(1);
    let mut asked_with = |tool_turn, tries| {
        world.decide(Input::Report {
            attempt,
            results: Vec::new(),
            unfinished: Vec::new(),
            reply: None,
            failure: None,
            full: None,
            summary: None,
            retry: Some(Box::new(Retry {
                tool_turn,
                attempt: tries,
                failure: Failure::new(FailureKind::Llm, "Server", "it is down"),
            })),
        });
        let gate = world.gate();
        assert_eq!(gate.turn, tool_turn);
        world.hook(Point::OnRetry, Verdict::Proceed);
        if tries == 3 {
            world.decide(Input::AttemptLost { attempt });
            world.decide(Input::TakenOver { holder_dead: true });
        }
        if tries == 7 {
            world.reply(1, "hm", &[]);
        }
        gate.index
    };
    let tries = [1, 3, 1, 2, 7].map(|tries| asked_with(0, tries));
    assert_eq!(tries, [1, 3, 4, 5, 7]);
    assert_eq!(asked_with(1, 1), 1, "another request");
}

/// Two models may not be asked where one may, also if hooks let both.
#[test]
fn requests_that_wait_for_hooks_keep_to_the_budgets() {
    let plan = || graph(vec![model_step("a"), model_step("b")]);
    let limits = |limits| {
        let mut world = idle(&[Point::PreRequest]);
        world.start_with(plan(), limits);
        world
    };
    let runs = |world: &World, has_begun: u32| -> Vec<u32> {
        let begun = world.attempt(has_begun);
        let work = world.session.outstanding_beside(|name| name == begun);
        let run = |step: &u32| work.contains(&Work::RunStep(world.attempt(*step)));
        [1, 2].into_iter().filter(run).collect()
    };
    let turns = |most| {
        limits(LimitOverrides {
            budgets: PerBudget::from([(Budget::Turns, most)]),
            ..LimitOverrides::default()
        })
    };
    let world = turns(2);
    assert_eq!(world.session.open_gates().len(), 2);
    assert_eq!(runs(&world, 1), [1, 2]);
    let mut world = turns(1);
    assert_eq!(runs(&world, 1), [1]);
    assert_eq!(runs(&world, 2), [2], "the other one is being asked");
    // An answer that is decided changes nothing of that.
    let gate = Gate::of_attempt(Point::PreRequest, world.attempt(2), 0);
    let outcomes = vec![outcome(Verdict::Proceed)];
    world.decide(hooked(gate, outcomes));
    assert_eq!(runs(&world, 1), [1]);
    assert_eq!(runs(&world, 2), [2]);
    check(&world);
}

#[test]
fn a_reply_counts_as_hooks_leave_it() {
    let mut world = idle(&[Point::PostRequest]);
    submit(&mut world, "hello");
    let events = world.reply(1, "a secret", &[]);
    assert_eq!(kinds(&events), ["ReplyReceived"]);
    let payload = world.payload();
    let Payload::Reply { text, usage, .. } = &payload else {
        panic!("{payload:?}");
    };
    assert_eq!((text.as_str(), usage.model_calls), ("a secret", 1));
    let mut blocks = world.clone();
    blocks.hook(Point::PostRequest, block());
    assert_eq!(failure(&blocks), blocked(Point::PostRequest));
    let text = Mutation::Text("[removed]".to_owned());
    let events = world.hook(Point::PostRequest, Verdict::Mutate(text));
    assert_eq!(events, ["HooksAnswered", "StepCompleted", "RunCompleted"]);
    assert_eq!(said(&world), ["user: hello", "assistant: [removed]"]);
}

/// The message came after the reply, and before the answer of the hooks was decided.
#[test]
fn a_turn_does_not_end_with_a_message_that_its_model_has_not_read() {
    let mut world = idle(&[Point::PostRequest]);
    submit(&mut world, "hello");
    world.reply(1, "hi", &[]);
    let message = SendMessage {
        step: None,
        message: Message::user("and more"),
    };
    world.foreign(EventKind::CommandReceived(CommandReceived {
        request_id: "steering".to_owned(),
        command: message.into(),
    }));
    let events = world.hook(Point::PostRequest, Verdict::Proceed);
    assert_eq!(events, ["ContextChanged", "HooksAnswered"]);
    assert_eq!(world.run().status, RunStatus::Running);
}

#[test]
fn no_call_is_made_before_hooks_have_seen_the_reply() {
    let mut world = world(&[Point::PostRequest]);
    let events = world.reply(1, "", &[send(), complete("done")]);
    assert_eq!(kinds(&events), ["ReplyReceived"]);
    world.decide(Input::TakenOver { holder_dead: true });
    let events = world.hook(Point::PostRequest, Verdict::Proceed);
    assert_eq!(events, ["HooksAnswered", "CallIntended"]);
    world.result(1, 0, "sent");
    assert_eq!(world.run().status, RunStatus::Completed);
}

#[test]
fn messages_give_way_once_hooks_let_them() {
    let world = compacting();
    let payload = world.payload();
    let is_requested = true;
    let prompt = String::new();
    assert_eq!(
        payload,
        Payload::Compaction {
            is_requested,
            prompt
        }
    );
    let mut blocks = world.clone();
    blocks.hook(Point::OnCompaction, block());
    assert_eq!(failure(&blocks), blocked(Point::OnCompaction));
    let mut passes = world;
    let prompt = Mutation::Prompt("only names".to_owned());
    let events = passes.hook(Point::OnCompaction, Verdict::Mutate(prompt));
    assert_eq!(events, ["HooksAnswered", "SummaryAsked"]);
    let attempt = passes.session.attempt(passes.attempt(1)).unwrap();
    let task = attempt.summary.as_ref().unwrap();
    assert!(task.prompt.contains("only names"), "{}", task.prompt);
}
