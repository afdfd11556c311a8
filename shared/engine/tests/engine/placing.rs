//! The pool: who carries out an attempt, what it waits for, and what its model is told.

use crate::play::lacks;
use crate::world::{World, chain, finished, graph, kinds, look, model_step, tool_call, tool_step};
use cairn_engine::command::{self, Command, LimitOverrides, Settlement, SkipStep};
use cairn_engine::conversation::{Layer, LayerKind, Op, Reminder};
use cairn_engine::decide::{CODE_GENERATION, Input};
use cairn_engine::event::{Budget, CallFinished, Event, EventKind, WaitReason};
use cairn_engine::message::{Message, Usage};
use cairn_engine::pending::pending;
use cairn_engine::plan::{PlanDraft, StepDraft};
use cairn_engine::pool::{
    Capabilities, Grant, Grants, PoolFacts, PoolView, ResourceState, ResourceTools, ResourceView,
};
use cairn_engine::session::{PerBudget, RunStatus, Session, StepStatus};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn executor(id: &str, state: ResourceState, capabilities: &[&str]) -> ResourceView {
    let capabilities: Capabilities = capabilities
        .iter()
        .map(|&name| (name.to_owned(), 1))
        .collect();
    ResourceView {
        id: id.into(),
        kind: "executor".to_owned(),
        state,
        slots: 1,
        free: u32::from(state == ResourceState::Available),
        capabilities: Arc::new(capabilities),
        labels: BTreeMap::new(),
        tools: Arc::default(),
    }
}

fn pool(resources: Vec<ResourceView>) -> PoolFacts {
    PoolFacts {
        view: Arc::new(PoolView {
            resources,
            table: Arc::from([]),
        }),
        ..PoolFacts::default()
    }
}

fn available(id: &str, capabilities: &[&str]) -> ResourceView {
    executor(id, ResourceState::Available, capabilities)
}

fn needing(title: &str) -> StepDraft {
    StepDraft {
        capabilities: vec!["web_search".to_owned()],
        ..model_step(title)
    }
}

fn searching() -> PlanDraft {
    chain(vec![needing("Search")])
}

/// A run whose step was told of one executor that can search.
fn told() -> World {
    let mut world = World::new();
    world.pool = pool(vec![available("executor-1", &["web_search"])]);
    world.start(searching());
    world
}

/// The layer of the pool as the next request of the step has it.
fn layer(world: &World) -> Option<Layer> {
    let attempt = world.session.attempt(world.attempt(1)).unwrap();
    let waiting = attempt.waiting_ops.iter().rev();
    let mut waiting = waiting.filter_map(|op| match op {
        Op::SetLayer(layer) if layer.kind == LayerKind::Pool => Some(layer),
        _ => None,
    });
    let written = attempt.conversation.layer(LayerKind::Pool);
    waiting.next().or(written).cloned()
}

/// The reminders of the pool that events bring.
fn reminded(events: &[Event]) -> Vec<Reminder> {
    let ops = events.iter().flat_map(|event| match &event.kind {
        EventKind::ContextChanged(changed) => changed.ops.clone(),
        _ => Vec::new(),
    });
    let of_pool = ops.filter_map(|op| match op {
        Op::Remind(it) if it.of.kind() == LayerKind::Pool => Some(it),
        _ => None,
    });
    of_pool.collect()
}

fn placed(world: &mut World, resource: &str) -> Vec<Event> {
    let attempt = world.attempt(1);
    world.decide(Input::Placed {
        attempt,
        resources: vec![resource.to_owned()],
        waited_ms: 0,
        has_begun: false,
    })
}

fn status(world: &World) -> RunStatus {
    world.run().status
}

const WAITING: RunStatus = RunStatus::Waiting(WaitReason::Capability);

#[test]
fn a_step_is_told_of_the_pool_after_its_other_layers() {
    let mut world = told();
    let layer = layer(&world).expect("a layer");
    assert_eq!(layer.names, ["web_search"]);
    assert_eq!(layer.allotted, ["executor-1"]);
    let section = "## Current task\n- ID: step-1\n";
    assert!(layer.text.contains(section), "{}", layer.text);
    world.reply(1, "I look.", &[look()]);
    let conversation = world.session.conversation(world.attempt(1)).unwrap();
    let kinds: Vec<_> = conversation.system.iter().map(|layer| layer.kind).collect();
    assert_eq!(kinds, [LayerKind::Prompt, LayerKind::Pool]);
    assert_eq!(world.folded(), world.session);
}

#[test]
fn nothing_is_said_of_a_pool_of_which_nothing_is_known() {
    let world = World::with_plan(searching());
    assert_eq!(layer(&world), None);
}

#[test]
fn only_other_capabilities_are_told_and_once() {
    let mut world = told();
    world.reply(1, "hm", &[]);
    let more = vec![
        available("executor-1", &["web_search"]),
        available("executor-2", &["web_search"]),
    ];
    world.pool = pool(more);
    assert!(
        reminded(&world.reply(1, "hm", &[])).is_empty(),
        "other counts"
    );
    world.pool = pool(vec![available("executor-1", &["gpu", "web_search"])]);
    let events = world.reply(1, "hm", &[]);
    let [reminder] = &reminded(&events)[..] else {
        panic!("{events:?}");
    };
    assert!(reminder.text.contains("| gpu |"), "{}", reminder.text);
    assert!(reminded(&world.reply(1, "hm", &[])).is_empty());
    assert_eq!(world.folded(), world.session);
}

#[test]
fn what_an_attempt_has_itself_is_not_taken_from_the_pool() {
    let mut world = told();
    world.reply(1, "hm", &[]);
    world.pool = pool(vec![executor(
        "executor-1",
        ResourceState::Busy,
        &["web_search"],
    )]);
    let attempt = world.attempt(1);
    let own = vec!["executor-1".to_owned()];
    world.pool.allotted.insert(attempt, own);
    assert!(reminded(&world.reply(1, "hm", &[])).is_empty());
    world.pool.allotted.clear();
    assert_eq!(reminded(&world.reply(1, "hm", &[])).len(), 1);
}

#[test]
fn a_turn_is_told_by_a_reminder_what_its_context_was_not() {
    let mut world = World::new();
    world.pool = pool(vec![available("executor-1", &["web_search"])]);
    let say = |world: &mut World| {
        world.command(Command::SubmitTurn(command::SubmitTurn {
            message: Some(Message::user("hello")),
            ..command::SubmitTurn::default()
        }))
    };
    assert!(reminded(&say(&mut world)).is_empty());
    let context = world.session.context("").unwrap();
    let written = context.conversation.layer(LayerKind::Pool).unwrap();
    assert!(
        !written.text.contains("## Current task"),
        "{}",
        written.text
    );
    world.reply(1, "hi", &[]);
    world.pool = pool(vec![available("executor-1", &["file_ops"])]);
    assert_eq!(reminded(&say(&mut world)).len(), 1);
    world.reply(1, "hi", &[]);
    assert!(reminded(&say(&mut world)).is_empty());
}

#[test]
fn the_layer_names_who_took_the_step_unless_it_has_replied() {
    let mut world = told();
    let events = placed(&mut world, "executor-1");
    assert_eq!(kinds(&events), ["AttemptPlaced"], "as predicted");
    let events = placed(&mut world, "executor-2");
    assert_eq!(kinds(&events), ["AttemptPlaced", "ContextChanged"]);
    assert_eq!(layer(&world).unwrap().allotted, ["executor-2"]);
    world.reply(1, "hm", &[]);
    let events = placed(&mut world, "executor-3");
    assert_eq!(kinds(&events), ["AttemptPlaced"], "no earlier byte changes");
    let step = world.session.step(world.attempt(1)).unwrap();
    assert_eq!(step.placing.resources, ["executor-3"]);
}

#[test]
fn after_a_wait_the_layer_is_as_the_pool_is_now() {
    let mut world = told();
    let attempt = world.attempt(1);
    world.decide(lacks(attempt, false));
    let two = ["executor-1", "executor-2"].map(|id| available(id, &["web_search"]));
    world.pool = pool(two.into());
    let events = placed(&mut world, "executor-1");
    assert_eq!(kinds(&events), ["AttemptPlaced", "ContextChanged"]);
    assert!(layer(&world).unwrap().text.contains("- Total: 2"));
    assert_eq!(world.folded(), world.session);
}

#[test]
fn the_need_of_a_step_has_its_tool_and_what_its_agent_needs() {
    let world = World::with_plan(graph(vec![needing("Search"), tool_step("Look", "look")]));
    let need = world.session.need_of(world.attempt(1));
    assert_eq!((need.text().as_str(), need.tool), ("web_search", None));
    let need = world.session.need_of(world.attempt(2));
    assert_eq!(
        (need.text().as_str(), need.tool.as_deref()),
        ("@look", Some("look"))
    );
}

#[test]
fn other_steps_continue_while_one_lacks_a_capability() {
    let mut world = World::with_plan(graph(vec![needing("Search"), model_step("Write")]));
    world.decide(lacks(world.attempt(1), true));
    assert_eq!(status(&world), WAITING);
    assert_eq!(world.outstanding().len(), 1, "the other step");
    assert!(!world.run().asks_person());
    world.complete(2, "written");
    assert!(world.outstanding().is_empty());
    let bytes = world.session.to_checkpoint().unwrap();
    assert_eq!(
        Session::from_checkpoint(&bytes),
        Some(world.session.clone())
    );
    let attempts = vec![world.attempt(1)];
    world.decide(Input::Found { attempts });
    world.complete(1, "found");
    assert_eq!(status(&world), RunStatus::Completed);
}

#[test]
fn a_person_can_only_fail_what_no_resource_has() {
    let mut world = World::with_plan(searching());
    let attempt = world.attempt(1);
    world.decide(lacks(attempt, true));
    let question = pending(&world.session)[0].id().to_string();
    assert_eq!(question, "shortage-1.1.1");
    let refused = world.answer(&question, Settlement::Retry);
    assert_eq!(kinds(&refused), ["CommandRefused"]);
    // What is asked again is another question.
    let attempts = vec![attempt];
    world.decide(Input::Found { attempts });
    world.decide(lacks(attempt, true));
    let fail = || Settlement::Fail {
        reason: "not today".to_owned(),
    };
    assert_eq!(kinds(&world.answer(&question, fail())), ["CommandRefused"]);
    world.answer("shortage-1.1.1-2", fail());
    let StepStatus::Failed { failure } = world.status(1) else {
        panic!("{:?}", world.status(1));
    };
    assert_eq!(failure.reason, "capability");
    let message = "no resource of the pool has web_search; not today";
    assert_eq!(failure.message, message);
    assert_eq!(world.folded(), world.session);
}

#[test]
fn a_skip_and_a_cancel_end_the_wait() {
    let mut world = World::with_plan(searching());
    world.decide(lacks(world.attempt(1), true));
    let mut cancelled = world.clone();
    world.command(Command::SkipStep(SkipStep {
        run: 1,
        step: 1.into(),
        reason: String::new(),
    }));
    assert_eq!(status(&world), RunStatus::Completed);
    cancelled.command(Command::CancelRun(command::CancelRun {
        run: 1,
        reason: String::new(),
    }));
    assert_eq!(status(&cancelled), RunStatus::Cancelled);
    for world in [world, cancelled] {
        assert!(pending(&world.session).is_empty());
        assert!(world.outstanding().is_empty());
    }
}

/// Tools that the operator took from an agent.
fn revoking(agent: &str, tools: &[&str]) -> PoolFacts {
    let grant = Grant {
        revoked: tools.iter().map(|&name| name.to_owned()).collect(),
        ..Grant::default()
    };
    PoolFacts {
        grants: Arc::new(Grants(BTreeMap::from([(agent.to_owned(), grant)]))),
        ..PoolFacts::default()
    }
}

#[test]
fn a_revoked_tool_is_refused_at_once_and_by_name() {
    let mut world = World::with_plan(chain(vec![model_step("Look")]));
    let attempt = world.attempt(1);
    world.pool = revoking("default", &["look", "step"]);
    assert!(!world.session.offers(attempt, "look", &world.pool.grants));
    let state_tool = world.session.offers(attempt, "step", &world.pool.grants);
    assert!(state_tool, "the work needs it");
    let events = world.reply(1, "", &[look()]);
    let [(output, is_error)] = &World::reported(&events)[..] else {
        panic!("{events:?}");
    };
    assert!(is_error);
    let said = "this agent, default, may not call 'look'; it can call: ";
    assert!(output.starts_with(said), "{output}");
    assert!(!output[said.len()..].contains("look"), "{output}");
    world.pool = PoolFacts::default();
    world.reply(1, "", &[look()]);
    assert!(!world.result(1, 0, "15 files").is_empty());
}

/// A pool of one executor that may use all tools but these.
fn lacking(tools: &[&str]) -> PoolFacts {
    let revoked = tools.iter().map(|&name| name.to_owned()).collect();
    let tools = ResourceTools::new(Vec::new(), BTreeSet::new(), revoked);
    pool(vec![ResourceView {
        tools: Arc::new(tools),
        ..available("executor-1", &[])
    }])
}

/// The step has its slot there.
fn allot(world: &mut World) {
    let attempt = world.attempt(1);
    let resources = vec!["executor-1".to_owned()];
    world.pool.allotted.insert(attempt, resources);
}

/// That the executor may not use the tool is the only result.
fn assert_refused(events: &[Event], tool: &str) {
    let results = events.iter().filter_map(|event| match &event.kind {
        EventKind::CallFinished(result) => Some(result),
        _ => None,
    });
    let results: Vec<_> = results.collect();
    let [result] = &results[..] else {
        panic!("{events:?}");
    };
    assert_eq!(result.reason, CallFinished::DENIED);
    let said = format!(
        "executor executor-1, which carries this out, may not use '{tool}'; you can call: "
    );
    let known = result
        .output
        .strip_prefix(&said)
        .expect("it names the executor");
    assert!(known.contains("put"), "{known}");
    assert!(!known.split(", ").any(|name| name == tool), "{known}");
}

#[test]
fn a_tool_that_was_revoked_from_its_executor_is_refused_at_once() {
    let mut world = World::with_plan(chain(vec![model_step("Look")]));
    world.pool = lacking(&["look"]);
    allot(&mut world);
    assert_refused(&world.reply(1, "", &[look()]), "look");
    let put = tool_call("put", &json!({}));
    assert!(World::reported(&world.reply(1, "", &[put])).is_empty());
    assert_eq!(world.folded(), world.session);
}

#[test]
fn an_approved_call_is_refused_if_its_executor_may_not_make_it() {
    let mut world = World::with_plan(chain(vec![model_step("Pay")]));
    world.reply(1, "", &[tool_call("pay", &json!({}))]);
    world.pool = lacking(&["pay"]);
    let question = pending(&world.session)[0].id().to_string();
    let mut with_slot = world.clone();
    allot(&mut with_slot);
    assert_refused(&with_slot.answer(&question, Settlement::Approve), "pay");
    // Without a slot nothing is known of its executor.
    assert!(World::reported(&world.answer(&question, Settlement::Approve)).is_empty());
    assert!(
        world
            .session
            .has_call_beyond(world.attempt(1), &world.pool.view.resources[0].tools)
    );
    let mut begun = world.clone();
    assert_refused(&placed(&mut world, "executor-1"), "pay");
    let attempt = begun.attempt(1);
    let events = begun.decide(Input::Placed {
        attempt,
        resources: vec!["executor-1".to_owned()],
        waited_ms: 0,
        has_begun: true,
    });
    assert_eq!(kinds(&events), ["AttemptPlaced"], "it may have been sent");
    assert_eq!(world.folded(), world.session);
}

#[test]
fn an_attempt_that_continues_elsewhere_makes_no_call_that_its_executor_may_not() {
    let mut world = World::with_plan(chain(vec![model_step("Look")]));
    world.reply(1, "", &[look()]);
    let attempt = world.attempt(1);
    world.decide(Input::AttemptLost { attempt });
    world.pool = lacking(&["look"]);
    // Of a tool whose server is away it is not known, and nothing of an executor that has left.
    let mut away = world.clone();
    away.tools.remove("look");
    assert_eq!(kinds(&placed(&mut away, "executor-1")), ["AttemptPlaced"]);
    let mut gone = world.clone();
    assert_eq!(kinds(&placed(&mut gone, "executor-2")), ["AttemptPlaced"]);
    assert_refused(&placed(&mut world, "executor-1"), "look");
    assert_eq!(world.folded(), world.session);
}

/// Tokens that a call of the tool used up.
fn generated(world: &World, tokens: u64) -> CallFinished {
    CallFinished {
        usage: Some(Usage {
            input_tokens: tokens,
            model_calls: 1,
            ..Usage::default()
        }),
        provider: "test".to_owned(),
        model: "test".to_owned(),
        ..finished(world.call(1, 0), "{}", "")
    }
}

#[test]
fn a_call_that_asks_a_model_is_charged_and_held_back_like_a_question() {
    let mut world = World::new();
    let pure = world.tools["look"].clone();
    world.tools.insert(CODE_GENERATION.to_owned(), pure);
    let limits = LimitOverrides {
        budgets: PerBudget::from([(Budget::Tokens, 1_000)]),
        ..LimitOverrides::default()
    };
    world.start_with(chain(vec![model_step("Write")]), limits);
    let generate = tool_call(CODE_GENERATION, &json!({"task": "a parser"}));
    world.reply(1, "", std::slice::from_ref(&generate));
    let before = world.session.usage.tokens();
    let call = world.session.call(world.call(1, 0)).unwrap().clone();
    assert!(call.asks_model() && !world.run().holds_back(&call));
    let result = generated(&world, 700);
    world.report(1, vec![result]);
    let run = world.run();
    let of_step = world.session.step(world.attempt(1)).unwrap().usage.tokens();
    for used in [
        run.spent.usage.tokens(),
        world.session.usage.tokens(),
        of_step,
    ] {
        assert_eq!(used, before + 700);
    }
    world.reply(1, "", &[generate]);
    let result = generated(&world, 700);
    world.report(1, vec![result]);
    assert_eq!(status(&world), RunStatus::Waiting(WaitReason::Budget));
    assert!(world.outstanding().is_empty());
    assert_eq!(world.folded(), world.session);
}

#[test]
fn a_call_that_asks_a_model_waits_while_no_question_fits() {
    let mut world = World::new();
    let pure = world.tools["look"].clone();
    world.tools.insert(CODE_GENERATION.to_owned(), pure);
    let limits = LimitOverrides {
        budgets: PerBudget::from([(Budget::Turns, 1)]),
        ..LimitOverrides::default()
    };
    world.start_with(chain(vec![model_step("Write")]), limits);
    let generate = tool_call(CODE_GENERATION, &json!({"task": "a parser"}));
    world.reply(1, "", &[generate]);
    let call = world.session.call(world.call(1, 0)).unwrap().clone();
    assert!(world.run().holds_back(&call));
    assert_eq!(status(&world), RunStatus::Waiting(WaitReason::Budget));
    assert!(world.session.outstanding_beside(|_| true).is_empty());
    let question = pending(&world.session)[0].id().to_string();
    world.answer(&question, Settlement::Retry);
    let call = world.session.call(world.call(1, 0)).unwrap().clone();
    assert!(!world.run().holds_back(&call));
    assert_eq!(world.outstanding().len(), 1);
}
