//! The agent state as JSON.

use crate::world::notation::plan;
use crate::world::{
    World, chain, complete, explored, fold, graph, look, model_step, send, tool_step,
};
use cairn_engine::command::{self, Command, LimitOverrides, Settlement, StartRun};
use cairn_engine::decide::Input;
use cairn_engine::event::Budget;
use cairn_engine::event::{self, EventKind};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::Message;
use cairn_engine::session::{PerBudget, Session};
use cairn_views::agent_state::{of_run, of_session};
use serde_json::{Value, json};

fn phase(world: &World) -> Value {
    of_session(&world.session)["phase"].clone()
}

#[test]
fn it_says_where_the_run_stands() {
    let mut world = World::new();
    assert_eq!(phase(&world), "Idle");
    world.command(Command::StartRun(StartRun {
        goal: "a goal".to_owned(),
        ..StartRun::default()
    }));
    assert_eq!(phase(&world), "Planning");
    world.planned(Ok(graph(vec![model_step("a"), tool_step("b", "send")])));
    assert_eq!(
        phase(&world),
        json!({"Executing": {"step": 1, "running": [1, 2]}})
    );
    world.complete(1, "done");
    assert_eq!(
        phase(&world),
        json!({"Executing": {"step": 2, "running": [2]}})
    );
    world.decide(Input::TakenOver { holder_dead: false });
    let waiting = json!({"Waiting": {"reason": "InDoubt", "step": 2, "running": [2]}});
    assert_eq!(phase(&world), waiting);
    assert_eq!(
        of_session(&world.session)["pending"],
        json!(["call-1.2.1.0.0"])
    );
    world.now += 1_000_000;
    world.answer(
        "call-1.2.1.0.0",
        Settlement::Done {
            output: "sent".to_owned(),
        },
    );
    assert_eq!(phase(&world), "Completed");
    assert_eq!(of_session(&world.session)["answer"], "sent");
}

/// The phases after the events of a journal, without those that say the same.
fn phases(world: &World) -> Vec<Value> {
    let until = |seq: usize| of_session(&fold(&world.journal[..seq]))["phase"].clone();
    let mut phases: Vec<Value> = (1..=world.journal.len()).map(until).collect();
    phases.dedup();
    phases
}

fn executing(step: Option<u32>, running: &[u32]) -> Value {
    json!({"Executing": {"step": step, "running": running}})
}

#[test]
fn between_two_steps_the_phase_is_executing_of_the_next_step() {
    let mut world = World::with_plan(plan("a b c"));
    world.command(skip(2));
    world.complete(1, "a is done");
    world.complete(3, "c is done");
    let expected = [
        json!("Idle"),
        json!("Planning"),
        executing(Some(1), &[]),
        executing(Some(1), &[1]),
        executing(Some(3), &[]),
        executing(Some(3), &[3]),
        executing(None, &[]),
        json!("Completed"),
    ];
    assert_eq!(phases(&world), expected);
}

/// Those that wait for it are not next.
#[test]
fn the_next_step_of_a_graph_is_the_first_one_that_waits_for_nothing() {
    let mut world = World::with_plan(plan("g: a<b b c<b"));
    assert!(phases(&world).contains(&executing(Some(2), &[])));
    world.complete(2, "b is done");
    assert!(phases(&world).contains(&executing(Some(1), &[])));
}

#[test]
fn after_a_failure_that_stops_the_run_no_step_is_next() {
    let one_at_a_time = LimitOverrides {
        max_parallel_steps: 1,
        ..LimitOverrides::default()
    };
    let mut world = World::new();
    world.start_with(plan("g: a b"), one_at_a_time);
    world.fail(1, Failure::new(FailureKind::Llm, "Refused", "no"));
    let phases = phases(&world);
    assert_eq!(phases[phases.len() - 2], executing(None, &[]));
    assert!(phases.last().unwrap().get("Failed").is_some());
}

#[test]
fn a_paused_run_names_the_step_that_is_next() {
    let mut world = World::with_plan(plan("a b"));
    world.command(Command::PauseRun(command::PauseRun {
        run: 1,
        reason: String::new(),
    }));
    world.complete(1, "a is done");
    assert_eq!(phase(&world), json!({"Paused": {"step": 2, "running": []}}));
}

#[test]
fn calls_that_wait_for_a_budget_are_not_counted_as_used() {
    let mut world = World::new();
    let limits = LimitOverrides {
        budgets: PerBudget::from([(Budget::Calls, 3)]),
        ..LimitOverrides::default()
    };
    world.start_with(plan("a"), limits);
    world.reply(1, "", &[look(), send()]);
    world.result(1, 0, "text");
    world.result(1, 1, "sent");
    world.reply(1, "", &[send(), send()]);
    assert_eq!(of_session(&world.session)["usage"]["tool_calls"], 2);
}

fn skip(step: u32) -> Command {
    Command::SkipStep(command::SkipStep {
        run: 1,
        step: step.into(),
        reason: String::new(),
    })
}

#[test]
fn a_session_without_a_title_is_called_by_the_goal_of_its_first_run() {
    let mut world = World::with_plan(chain(vec![model_step("a")]));
    let title = |world: &World| of_session(&world.session)["session"]["title"].clone();
    assert_eq!(title(&world), "test");
    world.session.title.clear();
    assert_eq!(title(&world), "the goal");
    world.session.runs.last_mut().unwrap().goal = "g".repeat(300);
    assert_eq!(title(&world), format!("{}…", "g".repeat(199)));
    assert_eq!(of_session(&Session::default())["session"]["title"], "");
}

#[test]
fn it_says_how_a_run_ended() {
    let mut failed = World::with_plan(chain(vec![model_step("a")]));
    failed.fail(1, Failure::new(FailureKind::Llm, "Refused", "no"));
    let expected = json!({"Failed": {"kind": "llm", "reason": "Refused", "message": "no"}});
    assert_eq!(phase(&failed), expected);
    let step = &of_session(&failed.session)["steps"][0];
    assert_eq!(
        (&step["status"], &step["error"]["reason"]),
        (&json!("Failed"), &json!("Refused"))
    );

    let mut cancelled = World::with_plan(chain(vec![model_step("a")]));
    let reason = "changed".to_owned();
    cancelled.command(Command::CancelRun(command::CancelRun { run: 1, reason }));
    assert_eq!(
        phase(&cancelled),
        json!({"Cancelled": {"reason": "changed"}})
    );
    let step = &of_session(&cancelled.session)["steps"][0];
    assert_eq!(
        (&step["status"], &step["reason"]),
        (&json!("Skipped"), &json!("cancelled"))
    );
    assert_eq!(of_session(&cancelled.session)["answer"], json!(null));

    let mut budget = World::new();
    let limits = LimitOverrides {
        budgets: PerBudget::from([(Budget::Turns, 1)]),
        ..LimitOverrides::default()
    };
    budget.start_with(chain(vec![model_step("a")]), limits);
    budget.reply(1, "hm", &[]);
    assert_eq!(phase(&budget)["Waiting"]["reason"], "Budget");
    assert_eq!(of_session(&budget.session)["pending"], json!(["budget-1"]));
}

#[test]
fn it_holds_steps_history_and_notes() {
    let mut world = explored();
    world.foreign(EventKind::MemorySet(event::MemorySet {
        key: "k".to_owned(),
        value: "v".to_owned(),
        writer: None,
        metadata: Default::default(),
    }));
    let notes = crate::world::tool_call("scratchpad", &json!({"text": "a note"}));
    world.result(3, 0, "text");
    world.reply(3, "", &[notes, send()]);
    let value = of_session(&world.session);
    assert_eq!(value["requirement"], "Change the configuration");
    assert_eq!(value["session"]["memory"], json!({"k": "v"}));
    assert_eq!(value["session"]["seq"], world.journal.len());
    let expected = json!({
        "step": 1, "id": "1", "title": "Explore", "description": "Do Explore.",
        "status": "Completed", "summary": "The file is src/config.", "error": null, "reason": null,
        "attempts": 1, "depends_on": [],
    });
    assert_eq!(value["steps"][0], expected);
    assert_eq!(value["steps"][3]["depends_on"], json!(["3"]));
    assert_eq!(value["steps"][3]["status"], "Pending");
    assert_eq!(value["scratchpad"], "a note");
    let look_arguments = r#"{"path":"notes.md"}"#;
    let history = value["current_step_chat_history"].as_array().unwrap();
    let expected = [
        json!({"step": 3, "attempt": 1, "role": "assistant", "text": "Now I change it.",
            "tool_calls": [{"id": "id-look", "name": "look", "arguments": look_arguments}]}),
        json!({"step": 3, "attempt": 1, "role": "tool", "text": "text",
            "tool_call_id": "id-look", "is_error": false}),
    ];
    assert_eq!(history[..2], expected);
    assert_eq!(history.len(), 5, "a call without a result has no message");
    assert_eq!(value["usage"]["tool_turns"], 7);
    assert_eq!(value["usage"]["tool_turns_allowed"], 50);
}

#[test]
fn the_history_of_a_tool_step_is_its_call() {
    let world = World::with_plan(chain(vec![tool_step("a", "look")]));
    let history = &of_session(&world.session)["current_step_chat_history"];
    assert_eq!(history.as_array().unwrap().len(), 1);
    assert_eq!(history[0]["role"], "assistant");
    assert_eq!(history[0]["tool_calls"][0]["name"], "look");
}

#[test]
fn the_history_is_gone_when_the_step_changes_and_the_notes_stay() {
    let mut world = World::with_plan(chain(vec![model_step("a"), model_step("b")]));
    let notes = crate::world::tool_call("scratchpad", &json!({"text": "a note"}));
    world.reply(1, "Hm.", &[notes, look()]);
    world.result(1, 1, "text");
    world.reply(1, "", &[complete("done")]);
    let value = of_session(&world.session);
    assert_eq!(value["current_step_chat_history"], json!([]));
    assert_eq!(value["scratchpad"], "a note");
}

/// Each turn of a conversation is sent them, until the model writes others.
#[test]
fn the_notes_of_a_conversation_stay_when_a_turn_has_ended() {
    let mut world = World::new();
    let submit = |text: &str| {
        Command::from(command::SubmitTurn {
            message: Some(Message::user(text)),
            ..command::SubmitTurn::default()
        })
    };
    let noted = |world: &World| of_session(&world.session)["scratchpad"].clone();
    world.command(submit("note it"));
    let notes = crate::world::tool_call("scratchpad", &json!({"text": "a note"}));
    world.reply(1, "", &[notes]);
    assert_eq!(noted(&world), "a note");
    world.reply(1, "Noted.", &[]);
    assert_eq!(noted(&world), "a note");
    world.command(submit("again"));
    assert_eq!(noted(&world), "a note");
    let none = crate::world::tool_call("scratchpad", &json!({"text": "", "mode": "replace"}));
    world.reply(1, "", &[none]);
    assert_eq!(noted(&world), "");
    world.reply(1, "Forgotten.", &[]);
    assert_eq!(noted(&world), "");
}

#[test]
fn an_earlier_run_can_be_read_too() {
    let mut world = World::with_plan(chain(vec![model_step("a")]));
    world.complete(1, "the first answer");
    world.start(chain(vec![tool_step("b", "send")]));
    world.decide(Input::TakenOver { holder_dead: false });
    let first = of_run(&world.session, world.session.run(1).unwrap());
    assert_eq!(
        (&first["run"], &first["answer"]),
        (&json!(1), &json!("the first answer"))
    );
    assert_eq!(
        first["pending"],
        json!([]),
        "the question is of the second run"
    );
    assert_eq!(of_session(&world.session)["run"], 2);
}
