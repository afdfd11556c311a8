//! The report of a run.

use crate::world::{
    World, chain, complete, explored, graph, look, model_step, send, tool_call, tool_step,
    with_goal,
};
use cairn_engine::command::{self, Command, LimitOverrides, RunLimits, Settlement};
use cairn_engine::decide::Input;
use cairn_engine::event::{AgentUse, Budget, Event, RunStarted};
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::Usage;
use cairn_engine::session::PerBudget;
use cairn_views::dump;
use cairn_views::figures::run_status;
use cairn_views::report::markdown;
use cairn_views::tree::Tree;
use serde_json::json;

fn report(world: &World) -> String {
    markdown(&world.journal, world.session.runs.len() as u32).unwrap()
}

#[test]
fn a_run_of_an_agent_names_it() {
    let started = |agent| RunStarted {
        run: 1,
        goal: "Look.".to_owned(),
        limits: RunLimits::default(),
        model: String::new(),
        trace_parent: String::new(),
        turn: None,
        agent,
        hooks: Vec::new(),
    };
    let reviewer = AgentUse {
        name: "reviewer".to_owned(),
        digest: "d".to_owned(),
    };
    for (agent, named) in [(None, false), (Some(reviewer), true)] {
        let event = Event {
            at: 1,
            answers: 0,
            principal: None,
            kind: started(agent).into(),
        };
        let text = markdown([&event], 1).unwrap();
        assert_eq!(
            text.contains("- Run: 1\n- Agent: reviewer\n"),
            named,
            "{text}"
        );
        let mut tree = Tree::default();
        tree.apply(1, &event);
        let text = dump::text(&tree, 1, 1).unwrap();
        assert_eq!(text.contains("\nagent: reviewer\n"), named, "{text}");
        let json = dump::json(&tree, 1, 1).unwrap();
        assert_eq!(json["trace"]["agent"] == "reviewer", named, "{json}");
    }
}

#[test]
fn a_finished_run_is_shown_from_goal_to_usage() {
    let mut world = explored();
    world.result(3, 0, "text");
    world.now += 60_000;
    world.complete(3, "The host is changed.");
    world.complete(4, "All tests pass.");
    let text = report(&world);
    let expected = "\
# Report

- Run: 1
- Status: completed
- Steps: 4 of 4 completed
- Tool turns: 8, tool calls: 10
- Tokens: 850 in, 80 out; cost: $0.0200
- Time: 2024-01-15 14:30:25 to 2024-01-15 14:31:29 UTC, 1 min 4 s

## Goal

Change the configuration

## Answer

All tests pass.

## Plan

1. ✓ Explore (done)
2. ✓ Count (done)
3. ✓ Change (done)
4. ✓ Test (done)

## Step 1: Explore

Status: done, in 3.0 s. Tool turns: 5, tokens: 550, cost: $0.0125.

**Summary**

The file is src/config.

**Tool calls**

1. `look` `{\"path\":\"notes.md\"}` → `15 files (+1 line)` (50 ms)
2. `send` `{\"to\":\"ops\",\"lines\":3,\"tags\":[\"a\"]}` → **failed** (ExecutionFailed): `it went wrong` (50 ms)
";
    assert!(text.starts_with(expected), "{text}");
    let usage = "\
## Usage

| | model calls | tokens in | tokens out | cost |
|---|---:|---:|---:|---:|
| Planning (0.9 s) | 0 | 50 | 0 | not known |
| Step 1 | 5 | 500 | 50 | $0.0125 |
| Step 3 | 2 | 200 | 20 | $0.0050 |
| Step 4 | 1 | 100 | 10 | $0.0025 |
| Total | 8 | 850 | 80 | $0.0200 |
";
    assert!(text.ends_with(usage), "{text}");
    assert!(
        text.contains("## Failures\n\n- Step 1, `send`: `it went wrong`\n"),
        "{text}"
    );
    assert!(!text.contains("unknown outcome"), "{text}");
}

#[test]
fn a_failed_run_says_why_and_what_was_not_begun() {
    let mut world = World::with_plan(chain(vec![model_step("a"), model_step("b")]));
    world.fail(
        1,
        Failure::new(FailureKind::Llm, "Refused", "the model *refused*"),
    );
    let text = report(&world);
    assert!(text.contains("- Status: failed\n"), "{text}");
    assert!(
        text.contains("## Failure\n\nthe model \\*refused\\*\n"),
        "{text}"
    );
    assert!(text.contains("1. ✗ a (failed)\n2. · b (to do)\n"), "{text}");
    assert!(
        text.contains("- Step 1 failed: the model \\*refused\\*\n"),
        "{text}"
    );
    assert!(!text.contains("## Step 2"), "{text}");
}

#[test]
fn a_run_that_was_paused_has_the_status_of_the_fold() {
    let check = |world: &World| {
        let status = format!("- Status: {}\n", run_status(world.run().status));
        let text = report(world);
        assert!(text.contains(&status), "{status}{text}");
    };
    let pause = || {
        Command::PauseRun(command::PauseRun {
            run: 1,
            reason: String::new(),
        })
    };
    let resume = || Command::ResumeRun(command::ResumeRun { run: 1 });
    let change = Command::RevisePlan(command::RevisePlan {
        run: 1,
        plan: Some(chain(vec![model_step("Rest")])),
        apply: true,
        ..command::RevisePlan::default()
    });
    let mut world = explored();
    for command in [pause(), change, resume()] {
        world.command(command);
        check(&world);
    }
    let mut world = World::new();
    for command in [with_goal("a goal"), pause(), resume()] {
        world.command(command);
        check(&world);
    }
}

#[test]
fn planning_that_failed_is_in_the_usage() {
    let mut world = World::new();
    world.command(with_goal("a goal"));
    let failure = Failure::new(FailureKind::PlanParse, "BadJson", "no JSON");
    world.planned(Err(failure));
    let text = report(&world);
    assert!(text.contains("## Failure\n\nno JSON\n"), "{text}");
    assert!(
        text.contains("- Tokens: 50 in, 0 out; cost: not known\n"),
        "{text}"
    );
    let row = "| Planning (0.9 s) | 0 | 50 | 0 | not known |\n| Total | 0 | 50 | 0 | not known |\n";
    assert!(text.ends_with(row), "{text}");
}

/// Tokens of caches have other prices, so the cost does not follow from the sums.
#[test]
fn tokens_of_the_cache_and_of_reasoning_have_their_own_numbers() {
    let mut world = World::new();
    world.command(with_goal("a goal"));
    world.decide(Input::Planned {
        request: None,
        run: 1,
        outcome: Err(Failure::new(FailureKind::PlanParse, "BadJson", "no JSON")),
        usage: Usage {
            input_tokens: 9600,
            cached_input_tokens: 9000,
            cache_write_tokens: 200,
            output_tokens: 340,
            reasoning_tokens: 120,
            cost_nano_usd: 11_100_000,
            unpriced_tokens: 0,
            model_calls: 1,
        },
        duration_ms: 900,
    });
    let text = report(&world);
    let row = "| Total | 1 | 9600 (9000 from a cache, 200 to a cache) | 340 (120 for reasoning) | $0.0111 |\n";
    assert!(text.ends_with(row), "{text}");
}

#[test]
fn a_running_and_a_cancelled_run_can_be_reported() {
    let mut world = explored();
    let text = report(&world);
    assert!(text.contains("- Status: running\n"), "{text}");
    assert!(text.contains("3. → Change (in progress)\n"), "{text}");
    assert!(
        text.contains("`look` `{\"path\":\"notes.md\"}`: no result yet"),
        "{text}"
    );
    let reason = "no longer needed".to_owned();
    world.command(Command::CancelRun(command::CancelRun { run: 1, reason }));
    let text = report(&world);
    assert!(
        text.contains("## Cancelled\n\nno longer needed\n"),
        "{text}"
    );
    assert!(text.contains("3. – Change (skipped)\n"), "{text}");
}

#[test]
fn calls_of_unknown_outcome_are_listed_with_how_they_were_settled() {
    let mut world = World::with_plan(graph(vec![tool_step("a", "send"), tool_step("b", "exec")]));
    world.decide(Input::TakenOver { holder_dead: true });
    let text = report(&world);
    assert!(text.contains("**nobody knows how it ended**"), "{text}");
    assert!(text.contains("continued 1 time(s) after a loss"), "{text}");
    assert!(
        text.contains(
            "- Step 1, `send` `{\"path\":\"notes.md\"}`: in doubt since 14:30:25; not settled"
        ),
        "{text}"
    );
    let done = Settlement::Done {
        output: "it was sent".to_owned(),
    };
    world.answer("call-1.1.1.0.0", done);
    let text = report(&world);
    assert!(
        text.contains("a person said: it was done, `it was sent`; has not taken effect"),
        "{text}"
    );
    let skip = Settlement::Skip {
        reason: "not needed".to_owned(),
    };
    world.answer("call-1.2.1.0.0", skip);
    world.now += 1_000_000;
    world.decide(Input::Tick);
    let text = report(&world);
    assert!(
        text.contains("it was done, `it was sent`; took effect at 14:47:05"),
        "{text}"
    );
    assert!(
        text.contains("to go on without it, `not needed`; took effect at 14:30:25"),
        "{text}"
    );
    assert!(text.contains("- Status: completed"), "{text}");
}

#[test]
fn a_step_that_waits_for_a_person_says_what_for() {
    let steps = vec![
        tool_step("a", "pay"),
        model_step("b"),
        tool_step("c", "send"),
    ];
    let mut world = World::with_plan(graph(steps));
    let asked = json!({"question": "Which one?", "choices": ["left", "right"]});
    world.reply(2, "", &[tool_call("ask_person", &asked)]);
    world.decide(Input::TakenOver { holder_dead: true });
    let text = report(&world);
    let plan = "\
1. → a (waits for an approval)
2. → b (waits for an answer)
3. → c (waits for a decision on a call in doubt)
";
    assert!(text.contains(plan), "{text}");
    let section = "## Step 1: a\n\nStatus: waits for an approval";
    assert!(text.contains(section), "{text}");
    let call = "`pay` `{\"path\":\"notes.md\"}`: waits for an approval";
    assert!(text.contains(call), "{text}");

    world.answer("approval-1.1.1.0.0", Settlement::Approve);
    let answer = "left".to_owned();
    world.answer("question-1.2.1.0.0", Settlement::Answer { text: answer });
    let text = report(&world);
    let plan = "1. → a (in progress)\n2. → b (in progress)\n3. → c (waits for a decision";
    assert!(text.contains(plan), "{text}");
}

#[test]
fn a_budget_that_was_raised_is_shown() {
    let mut world = World::new();
    let limits = LimitOverrides {
        budgets: PerBudget::from([(Budget::Turns, 1)]),
        ..LimitOverrides::default()
    };
    world.start_with(chain(vec![model_step("a")]), limits);
    world.reply(1, "hm", &[]);
    world.answer("budget-1", Settlement::Retry);
    world.complete(1, "done");
    let text = report(&world);
    assert!(
        text.contains("- Tool turns used up: 1 time(s); 1 more were allowed"),
        "{text}"
    );
}

#[test]
fn nothing_in_it_comes_through_as_markdown_or_control() {
    let evil = "x\u{1b}[2J ```\n# Forged\n<img src=x> [a](http://evil) | `tick`";
    let mut world = World::new();
    let mut step = model_step(evil);
    step.description = evil.to_owned();
    world.command(Command::StartRun(command::StartRun {
        goal: evil.to_owned(),
        plan: Some(chain(vec![step])),
        ..Default::default()
    }));
    let mut call = send();
    call.name = "send".to_owned();
    call.arguments = evil.to_owned();
    world.reply(1, evil, &[look(), call]);
    world.result(1, 0, evil);
    world.error(1, 1, evil);
    world.reply(1, evil, &[complete(evil)]);
    let text = report(&world);
    assert!(!text.contains('\u{1b}'), "{text}");
    let mut fence = None;
    for line in text.lines() {
        let ticks = line.len() - line.trim_start_matches('`').len();
        match fence {
            None if ticks >= 3 && line.trim_start_matches('`') == "text" => fence = Some(ticks),
            Some(open) if ticks >= open && line.len() == ticks => fence = None,
            Some(_) => {}
            None => {
                assert!(
                    !line.starts_with("# F") && !line.starts_with("<img"),
                    "{line}"
                );
                let is_escaped =
                    !line.contains("[a](") || line.contains('`') || line.contains(r"\[a\]");
                assert!(is_escaped, "{line}");
            }
        }
    }
    assert_eq!(fence, None, "every fence is closed");
}

#[test]
fn only_runs_that_there_are_have_a_report() {
    let mut world = World::with_plan(chain(vec![model_step("first")]));
    world.complete(1, "done");
    world.start(chain(vec![model_step("second")]));
    assert!(markdown(&world.journal, 1).unwrap().contains("first"));
    assert!(!markdown(&world.journal, 2).unwrap().contains("first"));
    assert_eq!(markdown(&world.journal, 0), None);
    assert_eq!(markdown(&world.journal, 3), None);
}
