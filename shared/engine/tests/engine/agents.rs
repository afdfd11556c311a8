//! Agents: what a session keeps of them, and how runs and contexts use them.

mod judged;
mod switched;
mod told;

use crate::turns::{refusal, sent, submit, turn};
use crate::world::{World, chain, fold, look, model_step, send, tool_call, tool_step, with_goal};
use cairn_engine::agent::{AgentCompaction, AgentDefinition, AgentLimits};
use cairn_engine::command::{
    ApplyProposal, ChangeContext, Command, ContextOp, CreateContext, DestroyContext, RevisePlan,
    StartRun, SubmitTurn, SwitchAgent, TurnOptions, WhenBusy, WhenFull,
};
use cairn_engine::decide::{AgentFault, Input, agents_needed};
use cairn_engine::event::{AgentDefined, AgentUse, Budget, Event, EventKind, PlanApplied};
use cairn_engine::message::Usage;
use cairn_engine::plan::PlanDraft;
use cairn_engine::refusal::Refusal;
use cairn_engine::session::{CallStatus, MAIN, RunStatus, Session};
use serde_json::json;
use std::sync::Arc;

fn list(names: &[&str]) -> Vec<String> {
    names.iter().copied().map(str::to_owned).collect()
}

/// An agent that looks, and puts what a person allows.
fn reviewer() -> AgentDefinition {
    AgentDefinition {
        prompt: "You review.".to_owned(),
        tools: Some(list(&["look", "put"])),
        asked: list(&["put"]),
        ..AgentDefinition::named("reviewer")
    }
}

/// The agent is there from now on, in place of one of its name.
fn know(world: &mut World, agent: AgentDefinition) {
    let name = match agent.name.as_str() {
        "default" => String::new(),
        name => name.to_owned(),
    };
    world.agents.0.insert(name, Ok(Some(Arc::new(agent))));
}

fn with_reviewer() -> World {
    let mut world = World::new();
    know(&mut world, reviewer());
    world
}

fn switch(world: &mut World, agent: &str) -> Vec<Event> {
    world.command(Command::from(SwitchAgent {
        context: String::new(),
        agent: agent.to_owned(),
    }))
}

fn create(world: &mut World, name: &str, agent: &str) -> Vec<Event> {
    world.command(Command::from(CreateContext {
        name: name.to_owned(),
        agent: agent.to_owned(),
        ..CreateContext::default()
    }))
}

fn start(world: &mut World, plan: PlanDraft, agent: &str) -> Vec<Event> {
    world.command(Command::from(StartRun {
        goal: "the goal".to_owned(),
        plan: Some(plan),
        agent: agent.to_owned(),
        ..StartRun::default()
    }))
}

/// A turn of the active context that the model answers at once.
fn talk(world: &mut World, text: &str) {
    submit(world, text);
    world.reply(1, "well", &[]);
}

fn defined(events: &[Event]) -> Vec<&AgentDefined> {
    let defined = events.iter().filter_map(|event| match &event.kind {
        EventKind::AgentDefined(defined) => Some(defined),
        _ => None,
    });
    defined.collect()
}

fn used(agent: &AgentDefinition) -> Option<AgentUse> {
    Some(AgentUse {
        name: agent.name.clone(),
        digest: agent.digest(),
    })
}

/// The fold of the journal, and a checkpoint, are the same state.
fn check(world: &World) {
    assert_eq!(world.session, world.folded());
    let bytes = world.session.to_checkpoint().unwrap();
    assert_eq!(
        Session::from_checkpoint(&bytes).as_ref(),
        Some(&world.session)
    );
}

#[test]
fn a_definition_is_written_once_before_what_uses_it_first() {
    let mut world = with_reviewer();
    let events = create(&mut world, "side", "reviewer");
    let [first, second, ..] = &events[..] else {
        panic!("{events:?}");
    };
    assert!(matches!(&first.kind, EventKind::AgentDefined(it) if *it.agent == reviewer()));
    assert!(matches!(&second.kind, EventKind::ContextCreated(it) if it.agent == used(&reviewer())));
    let context = world.session.context("side").unwrap();
    assert_eq!(context.agent, used(&reviewer()));
    let events = start(&mut world, chain(vec![model_step("one")]), "reviewer");
    assert!(defined(&events).is_empty(), "{events:?}");
    assert_eq!(world.run().agent, used(&reviewer()));
    assert_eq!(world.run().summary().agent, used(&reviewer()).as_ref());
    check(&world);
}

#[test]
fn two_thousand_turns_have_one_definition() {
    let mut world = with_reviewer();
    switch(&mut world, "reviewer");
    for _ in 0..2_000 {
        talk(&mut world, "again");
    }
    assert_eq!(defined(&world.journal).len(), 1);
    assert_eq!(world.session.agents.len(), 1);
    let mut runs = world.session.runs.summaries();
    assert!(runs.all(|run| run.agent == used(&reviewer()).as_ref()));
    check(&world);
}

#[test]
fn a_definition_goes_when_nothing_uses_it_and_another_one_comes() {
    let mut world = with_reviewer();
    create(&mut world, "side", "reviewer");
    switch(&mut world, "reviewer");
    for n in 0..10 {
        know(
            &mut world,
            AgentDefinition {
                prompt: format!("You review as in year {n}."),
                ..reviewer()
            },
        );
        talk(&mut world, "again");
        let of = |name: &str| world.session.context(name).unwrap().agent.clone();
        assert_eq!(of("side"), used(&reviewer()), "no turn of it began");
        assert_eq!(of(MAIN), world.run().agent);
        let known: Vec<&String> = world.session.agents.keys().collect();
        assert!((2..=3).contains(&known.len()), "{known:?}");
        check(&world);
    }
    world.command(Command::from(DestroyContext {
        context: "side".to_owned(),
        ..DestroyContext::default()
    }));
    let digest = reviewer().digest();
    assert!(world.session.agents.contains_key(&digest));
    know(&mut world, AgentDefinition::named("other"));
    switch(&mut world, "other");
    assert!(!world.session.agents.contains_key(&digest));
    // The run has ended, and another plan could open it again.
    let last = world.run().agent.clone().unwrap();
    assert!(world.session.agents.contains_key(&last.digest));
    check(&world);
}

#[test]
fn a_turn_takes_the_newest_definition_and_keeps_it() {
    let mut world = with_reviewer();
    switch(&mut world, "reviewer");
    submit(&mut world, "first");
    let newer = AgentDefinition {
        tools: Some(list(&["look", "send"])),
        ..reviewer()
    };
    know(&mut world, newer.clone());
    world.reply(1, "", &[look(), send()]);
    let status = &world.session.call(world.call(1, 1)).unwrap().status;
    assert!(
        matches!(status, CallStatus::Finished { reason, .. } if reason == "NotFound"),
        "{status:?}"
    );
    world.result(1, 0, "seen");
    world.reply(1, "done", &[]);
    assert_eq!(world.run().agent, used(&reviewer()));
    submit(&mut world, "second");
    assert_eq!(world.run().agent, used(&newer));
    assert_eq!(world.session.context(MAIN).unwrap().agent, used(&newer));
    world.reply(1, "", &[send()]);
    let status = &world.session.call(world.call(1, 0)).unwrap().status;
    assert!(matches!(status, CallStatus::Intended { .. }), "{status:?}");
    check(&world);
}

/// The owner asks for the names that waiting commands have. A turn that waited for a run begins in whatever
/// transition ends that.
#[test]
fn a_queued_turn_begins_with_what_is_known_of_its_agent() {
    let newer = AgentDefinition {
        prompt: "You review once more.".to_owned(),
        ..reviewer()
    };
    for (now, expected) in [
        (None, Some(reviewer())),
        (Some(Ok(Some(Arc::new(newer.clone())))), Some(newer)),
        (
            Some(Err(AgentFault {
                refusal: Refusal::AgentNotUsable,
                message: "agent 'reviewer' is disabled".to_owned(),
            })),
            None,
        ),
    ] {
        let mut world = with_reviewer();
        switch(&mut world, "reviewer");
        submit(&mut world, "first");
        world.command(Command::from(SubmitTurn {
            when_busy: WhenBusy::Queue,
            ..turn("second")
        }));
        world.agents.0.clear();
        world
            .agents
            .0
            .extend(now.map(|it| ("reviewer".to_owned(), it)));
        let events = world.reply(1, "well", &[]);
        match expected {
            Some(agent) => {
                assert_eq!(world.run().agent, used(&agent));
                assert_eq!(world.run().status, RunStatus::Running);
            }
            None => {
                let EventKind::QueuedTurnDropped(dropped) = &events.last().unwrap().kind else {
                    panic!("{events:?}");
                };
                let failure = dropped.failure.as_ref().unwrap();
                assert_eq!(failure.reason, "AGENT_NOT_USABLE");
            }
        }
        check(&world);
    }
}

#[test]
fn the_names_that_commands_ask_for_are_known_before() {
    let mut world = with_reviewer();
    create(&mut world, "side", "reviewer");
    let needed = |command: Command| -> Vec<String> {
        let names = agents_needed(&world.session, Some(&command));
        names.into_iter().collect()
    };
    let start = |agent: &str| StartRun {
        agent: agent.to_owned(),
        ..StartRun::default()
    };
    let in_side = SubmitTurn {
        context: "side".to_owned(),
        ..SubmitTurn::default()
    };
    assert_eq!(needed(start("writer").into()), ["writer"]);
    assert_eq!(needed(start("default").into()), [""]);
    assert_eq!(needed(SubmitTurn::default().into()), [""]);
    assert_eq!(needed(in_side.into()), ["reviewer"]);
    assert_eq!(needed(RevisePlan::default().into()), [""; 0]);
    assert!(agents_needed(&world.session, None).is_empty());
}

#[test]
fn an_agent_that_is_not_there_is_refused_and_no_other_takes_its_place() {
    let mut world = World::new();
    let fault = AgentFault {
        refusal: Refusal::AgentNotFound,
        message: "there is no agent 'writer'; there are: reviewer".to_owned(),
    };
    world.agents.0.insert("writer".to_owned(), Err(fault));
    for (name, reason) in [
        ("writer", "AGENT_NOT_FOUND"),
        ("reader", "AGENT_NOT_USABLE"),
    ] {
        let plan = || chain(vec![model_step("one")]);
        assert_eq!(refusal(&start(&mut world, plan(), name)), reason);
        assert_eq!(refusal(&create(&mut world, "side", name)), reason);
        assert_eq!(refusal(&switch(&mut world, name)), reason);
    }
    assert!(world.session.agents.is_empty());
    assert!(world.session.runs.is_empty());
    check(&world);
}

#[test]
fn a_plan_or_a_turn_that_needs_more_than_its_agent_has_is_refused() {
    let mut world = with_reviewer();
    let outside = || chain(vec![model_step("one"), tool_step("two", "send")]);
    let events = start(&mut world, outside(), "reviewer");
    assert_eq!(refusal(&events), "TOOL_NOT_ALLOWED");
    assert!(world.session.runs.is_empty());
    start(&mut world, chain(vec![model_step("one")]), "reviewer");
    for apply in [false, true] {
        let revised = world.command(Command::from(RevisePlan {
            plan: Some(outside()),
            apply,
            ..RevisePlan::default()
        }));
        assert_eq!(refusal(&revised), "TOOL_NOT_ALLOWED");
    }
    world.command(Command::from(RevisePlan {
        plan: Some(chain(vec![tool_step("two", "look")])),
        ..RevisePlan::default()
    }));
    let proposal = ApplyProposal {
        run: 0,
        proposal: 1,
    };
    world.command(proposal.into());
    assert_eq!(world.run().revision(), 2);
    world.result(2, 0, "seen");

    switch(&mut world, "reviewer");
    let with_tools = |tools: &[&str]| SubmitTurn {
        options: TurnOptions {
            tools: Some(list(tools)),
            ..TurnOptions::default()
        },
        ..turn("hello")
    };
    for outside in [["look", "send"], ["look", "read_skill"]] {
        let events = world.command(with_tools(&outside).into());
        assert_eq!(refusal(&events), "TOOL_NOT_ALLOWED");
    }
    world.command(with_tools(&["look"]).into());
    assert_eq!(world.run().status, RunStatus::Running);
    check(&world);
}

/// It has no skills, whatever it is called by.
#[test]
fn a_turn_of_the_plain_default_agent_is_offered_no_skill() {
    let mut world = World::new();
    let events = world.command(Command::from(SubmitTurn {
        options: TurnOptions {
            tools: Some(list(&["read_skill"])),
            ..TurnOptions::default()
        },
        ..turn("hello")
    }));
    assert_eq!(refusal(&events), "TOOL_NOT_ALLOWED");
    assert!(world.session.runs.is_empty());
    check(&world);
}

/// A deleted agent is gone for a context, too. What has its name by now is not what the operator stored.
#[test]
fn a_context_does_not_move_to_another_agent_of_the_same_name() {
    let mut world = with_reviewer();
    switch(&mut world, "reviewer");
    submit(&mut world, "first");
    world.command(Command::from(SubmitTurn {
        when_busy: WhenBusy::Queue,
        ..turn("second")
    }));
    let of_file = Arc::new(AgentDefinition::named("workspace:reviewer"));
    let of_name = world.agents.0.get_mut("reviewer").unwrap();
    *of_name = Ok(Some(Arc::clone(&of_file)));
    let events = world.reply(1, "well", &[]);
    let EventKind::QueuedTurnDropped(dropped) = &events.last().unwrap().kind else {
        panic!("{events:?}");
    };
    let failure = dropped.failure.as_ref().unwrap();
    assert_eq!(failure.reason, "AGENT_NOT_FOUND");
    assert!(
        failure.message.contains("'workspace:reviewer'"),
        "{failure:?}"
    );
    assert_eq!(refusal(&submit(&mut world, "third")), "AGENT_NOT_FOUND");
    let context = world.session.context(MAIN).unwrap();
    assert_eq!(context.agent, used(&reviewer()));
    // A person who wants it says so.
    switch(&mut world, "reviewer");
    let name = "workspace:reviewer".to_owned();
    world.agents.0.insert(name, Ok(Some(Arc::clone(&of_file))));
    submit(&mut world, "fourth");
    assert_eq!(world.run().agent, used(&of_file));
    check(&world);
}

#[test]
fn a_planner_cannot_give_an_agent_more_than_it_has() {
    let mut world = with_reviewer();
    let Command::StartRun(goal) = with_goal("send it") else {
        panic!("it starts a run");
    };
    world.command(Command::from(StartRun {
        agent: "reviewer".to_owned(),
        ..goal
    }));
    world.decide(Input::Planned {
        run: 1,
        request: None,
        outcome: Ok(chain(vec![tool_step("one", "send")])),
        usage: Usage::default(),
        duration_ms: 1,
    });
    let failure = world.run().end.failure.as_ref().unwrap();
    assert_eq!(failure.reason, "TOOL_NOT_ALLOWED");
    assert!(failure.message.contains("'send'"), "{}", failure.message);
    check(&world);
}

/// No check of a plan is needed for that: what starts a step looks at the agent, too.
#[test]
fn a_call_outside_the_list_is_never_sent_however_its_plan_came_about() {
    for tool in ["send", "put", "look", "peek", "nothing"] {
        let mut world = with_reviewer();
        let Command::StartRun(goal) = with_goal("send it") else {
            panic!("it starts a run");
        };
        world.command(Command::from(StartRun {
            agent: "reviewer".to_owned(),
            ..goal
        }));
        world.foreign(EventKind::PlanApplied(PlanApplied {
            run: 1,
            revision: 1,
            plan: chain(vec![tool_step("one", tool)]),
            numbers: Vec::new(),
            request: 0,
            usage: Usage::default(),
            duration_ms: 0,
            stops: 0,
        }));
        let events = world.decide(Input::Tick);
        let unknown = events.iter().any(|event| match &event.kind {
            EventKind::CallFinished(it) => it.reason == "NotFound",
            _ => false,
        });
        let is_outside = matches!(tool, "send" | "peek" | "nothing");
        assert_eq!(unknown, is_outside, "{tool}: {events:?}");
        let is_failed = world.run().status == RunStatus::Failed;
        assert_eq!(is_failed, is_outside, "{tool}");
        let sent = |event: &Event| matches!(event.kind, EventKind::CallIntended(_));
        assert!(!events.iter().any(sent), "{tool}: {events:?}");
        check(&world);
    }
}

#[test]
fn a_model_reads_that_its_agent_may_not_call_a_tool() {
    let mut world = with_reviewer();
    start(&mut world, chain(vec![model_step("one")]), "reviewer");
    let calls = ["send", "fly"].map(|name| tool_call(name, &json!({})));
    let events = world.reply(1, "", &calls);
    let said: Vec<String> = World::reported(&events)
        .into_iter()
        .map(|(text, _)| text)
        .collect();
    let denied = "this agent, reviewer, may not call 'send'; it can call: ";
    assert!(said[0].starts_with(denied), "{said:?}");
    assert!(!said[0].contains("peek"), "{said:?}");
    assert!(said[1].starts_with("there is no tool 'fly'; "), "{said:?}");
}

#[test]
fn a_request_goes_before_an_agent() {
    let mut world = World::new();
    let agent = AgentDefinition {
        model: "of the agent".to_owned(),
        limits: AgentLimits {
            max_tool_turns: Some(3),
            calls: Some(40),
            ..AgentLimits::default()
        },
        compaction: AgentCompaction {
            when_full: Some(WhenFull::Refuse),
            ..AgentCompaction::default()
        },
        ..AgentDefinition::named("writer")
    };
    know(&mut world, agent);
    switch(&mut world, "writer");
    submit(&mut world, "as it is");
    let run = world.run();
    assert_eq!(run.model, "of the agent");
    let limits = &run.limits;
    assert_eq!(
        (limits.max_tool_turns, limits.budgets[Budget::Calls]),
        (3, 40)
    );
    assert_eq!(world.session.when_full(world.attempt(1)), WhenFull::Refuse);
    world.reply(1, "well", &[]);
    world.command(Command::from(SubmitTurn {
        model: "of the request".to_owned(),
        options: TurnOptions {
            max_tool_turns: Some(5),
            when_full: Some(WhenFull::Compact),
            ..TurnOptions::default()
        },
        ..turn("as I say")
    }));
    let run = world.run();
    assert_eq!(
        (run.model.as_str(), run.limits.max_tool_turns),
        ("of the request", 5)
    );
    assert_eq!(world.session.when_full(world.attempt(1)), WhenFull::Compact);
    check(&world);
}

/// An agent of whose context a request has only the last two messages before it.
fn brief() -> AgentDefinition {
    AgentDefinition {
        window: Some(2),
        ..AgentDefinition::named("brief")
    }
}

#[test]
fn the_window_of_an_agent_counts_in_a_context_without_one() {
    let mut world = World::new();
    know(&mut world, brief());
    for (text, answer) in [("one", "first"), ("two", "second")] {
        submit(&mut world, text);
        world.reply(1, answer, &[]);
    }
    let seen = |world: &World| {
        let main = world.session.context(MAIN).unwrap();
        main.conversation.in_window().len()
    };
    assert_eq!(seen(&world), 4);
    switch(&mut world, "brief");
    assert_eq!(seen(&world), 2);
    submit(&mut world, "three");
    let now = sent(&world);
    assert_eq!(now[..2], ["two", "second"], "{now:?}");
    assert!(world.session.may_lack_messages(world.attempt(1)));
    world.reply(1, "third", &[]);
    for (own, number) in [(Some(3), 3), (None, 2)] {
        world.command(Command::from(ChangeContext {
            context: String::new(),
            ops: vec![ContextOp::SetWindow(own)],
            ..ChangeContext::default()
        }));
        assert_eq!(seen(&world), number);
    }
    submit(&mut world, "four");
    switch(&mut world, "default");
    assert_eq!(seen(&world), 2, "the window stays during a turn");
    world.reply(1, "fourth", &[]);
    submit(&mut world, "five");
    assert_eq!(seen(&world), 8);
    check(&world);
}

/// The newest definition counts, from the next turn on.
#[test]
fn another_window_of_an_agent_counts_for_the_next_turn() {
    let mut world = World::new();
    know(&mut world, brief());
    create(&mut world, "side", "brief");
    let of_side = |world: &World| {
        let side = world.session.context("side").unwrap();
        side.conversation.effective_window()
    };
    assert_eq!(of_side(&world), Some(2));
    know(
        &mut world,
        AgentDefinition {
            window: None,
            ..brief()
        },
    );
    assert_eq!(of_side(&world), Some(2));
    world.command(Command::from(SubmitTurn {
        context: "side".to_owned(),
        ..turn("hello")
    }));
    assert_eq!(of_side(&world), None);
    check(&world);
}

#[test]
fn the_fold_takes_no_use_without_a_definition_and_no_definition_twice() {
    let mut world = with_reviewer();
    create(&mut world, "side", "reviewer");
    let at = |kind: &str| {
        let mut events = world.journal.iter();
        events
            .position(|event| format!("{:?}", event.kind).starts_with(kind))
            .unwrap()
    };
    let (definition, creation) = (at("AgentDefined"), at("ContextCreated"));
    let mut without = fold(&world.journal[..definition]);
    assert!(
        without
            .apply(without.seq + 1, &world.journal[creation])
            .is_err()
    );
    let mut twice = fold(&world.journal[..=definition]);
    assert!(
        twice
            .apply(twice.seq + 1, &world.journal[definition])
            .is_err()
    );
}
