//! Views of journals, page by page.

use crate::support::{Author, Line, World};
use cairn_engine::command::{self, Command, LimitOverrides, Settlement, StartRun};
use cairn_engine::decide::{Input, Reply};
use cairn_engine::event::{AttemptRef, Budget, CallFinished, CallRef, EventKind};
use cairn_engine::message::{FinishReason, ToolCall, Usage};
use cairn_engine::plan::{Order, PlanDraft, StepDraft, ToolInvocation};
use cairn_engine::session::PerBudget;
use cairn_proto::orchestrator as pb;

const STEP_DONE: &str = r#"{"complete": true, "summary": "done"}"#;
const TOOL_STEP: &str = r#"{"of":"a tool step"}"#;

fn step(title: &str, tool: Option<&str>) -> StepDraft {
    StepDraft {
        title: title.to_owned(),
        description: title.to_owned(),
        tool: tool.map(|name| ToolInvocation {
            name: name.to_owned(),
            arguments: TOOL_STEP.to_owned(),
        }),
        ..StepDraft::default()
    }
}

fn start(steps: Vec<StepDraft>) -> Input {
    let start = StartRun {
        plan: Some(PlanDraft {
            order: Order::Chain,
            steps,
        }),
        limits: LimitOverrides {
            max_tool_turns: 1000,
            budgets: PerBudget::from([(Budget::Turns, 100_000)]),
            ..LimitOverrides::default()
        },
        ..StartRun::default()
    };
    Input::Create {
        title: "long".to_owned(),
        time_to_live_ms: 0,
        principal: None,
        command: Some(("r-1".to_owned(), Command::StartRun(start))),
    }
}

fn attempt(step: u32) -> AttemptRef {
    AttemptRef {
        run: 1,
        step: step.into(),
        attempt: 1,
    }
}

fn call(attempt: AttemptRef, tool_turn: u32, index: u32) -> CallRef {
    CallRef {
        attempt,
        tool_turn,
        index,
    }
}

fn result(call: CallRef, output: &str) -> CallFinished {
    CallFinished {
        media: Vec::new(),
        call,
        output: output.to_owned(),
        is_error: false,
        reason: String::new(),
        duration_ms: 4,
        whole: None,
        file: None,
        usage: None,
        provider: String::new(),
        model: String::new(),
        held: false,
    }
}

fn report(
    attempt: AttemptRef,
    results: Vec<CallFinished>,
    tool_turn: u32,
    text: &str,
    calls: &[(&str, &str)],
) -> Input {
    let calls = calls
        .iter()
        .enumerate()
        .map(|(at, (name, arguments))| ToolCall {
            id: format!("id-{at}"),
            name: (*name).to_owned(),
            arguments: (*arguments).to_owned(),
        });
    Input::Report {
        unfinished: Vec::new(),
        attempt,
        results,
        reply: Some(Reply {
            tool_turn,
            text: text.to_owned(),
            calls: calls.collect(),
            opaque: Vec::new(),
            finish: FinishReason::ToolCalls,
            usage: Usage::default(),
            provider: "played".to_owned(),
            model: "played-1".to_owned(),
            duration_ms: 9,
            ops_through: 0,
            estimated_tokens: 0,
            window_tokens: 0,
        }),
        failure: None,
        full: None,
        summary: None,
        retry: None,
    }
}

/// A little of everything that the log shows.
pub(crate) fn varied() -> Vec<Line> {
    let (tool, model) = (attempt(1), attempt(2));
    let decision = Command::Decide(command::Decide {
        pending_id: "call-1.2.1.1.1".to_owned(),
        settlement: Settlement::Done {
            output: "a person saw it".to_owned(),
        },
    });
    vec![
        start(vec![step("call", Some("pure")), step("think", None)]).into(),
        Input::Report {
            unfinished: Vec::new(),
            attempt: tool,
            results: vec![result(call(tool, 0, 0), "by a tool step")],
            reply: None,
            failure: None,
            full: None,
            summary: None,
            retry: None,
        }
        .into(),
        report(
            model,
            Vec::new(),
            0,
            "first",
            &[("pure", r#"{"n": 0}"#), ("scratchpad", r#"{"text": "x"}"#)],
        )
        .into(),
        report(
            model,
            vec![result(call(model, 0, 0), "found")],
            1,
            "",
            &[
                ("idempotent", r#"{"n": 1}"#),
                ("effectful", r#"{"n": 2}"#),
                ("unknown", "{}"),
            ],
        )
        .into(),
        Input::TakenOver { holder_dead: false }.into(),
        Line::Command(decision),
        Input::HandleCommand.into(),
        Line::Later(Input::Tick),
        report(
            model,
            vec![result(call(model, 1, 0), "made")],
            2,
            "last",
            &[("step", STEP_DONE)],
        )
        .into(),
    ]
}

/// What the log should show: seq, tool, input and output.
fn expected(author: &Author) -> Vec<(u64, String, String, String)> {
    let mut calls = std::collections::HashMap::new();
    let mut entries = Vec::new();
    for (event, seq) in author.events().iter().zip(1..) {
        let (tool, input, output) = match &event.kind {
            EventKind::StepStarted(it) if it.tool_effect.is_some() => {
                let asked = ("pure".to_owned(), TOOL_STEP.to_owned());
                calls.insert(call(it.attempt, 0, 0), asked);
                continue;
            }
            EventKind::ReplyReceived(reply) => {
                for (requested, index) in reply.calls.iter().zip(0..) {
                    let asked = (
                        requested.call.name.clone(),
                        requested.call.arguments.clone(),
                    );
                    calls.insert(call(reply.attempt, reply.tool_turn, index), asked);
                }
                if reply.text.is_empty() {
                    continue;
                }
                (String::new(), String::new(), reply.text.clone())
            }
            EventKind::CallFinished(it) => with_output(&calls[&it.call], &it.output),
            EventKind::CallInDoubt(it) => with_output(&calls[&it.call], "in doubt"),
            EventKind::CallSettled(it) => match it.settlement.result(&it.output) {
                Some((output, _)) => with_output(&calls[&it.call], output),
                None => continue,
            },
            _ => continue,
        };
        entries.push((seq, tool, input, output));
    }
    entries
}

fn with_output((tool, input): &(String, String), output: &str) -> (String, String, String) {
    (tool.clone(), input.clone(), output.to_owned())
}

/// Reads the log in pages of at most so many entries.
async fn pages(world: &World, session: &str, max_entries: u32) -> Vec<pb::LogEntry> {
    let mut entries = Vec::new();
    let mut after_seq = 0;
    loop {
        let page = page(world, session, after_seq, max_entries).await;
        assert!(page.entries.len() <= max_entries as usize || max_entries == 0);
        entries.extend(page.entries);
        after_seq = page.next_after_seq;
        if after_seq == 0 {
            return entries;
        }
    }
}

async fn page(
    world: &World,
    session: &str,
    after_seq: u64,
    max_entries: u32,
) -> pb::GetExecutionLogResponse {
    let request = pb::GetExecutionLogRequest {
        session: session.to_owned(),
        after_seq,
        max_entries,
    };
    let answer = world.client.clone().get_execution_log(request).await;
    answer.expect("a page").into_inner()
}

#[tokio::test(start_paused = true)]
async fn the_log_is_the_same_in_pages_of_any_length() {
    let world = World::new().await;
    let mut author = Author::new(&world, "s-varied");
    author.write(varied()).await;
    let expected = expected(&author);
    assert!(expected.len() >= 9, "{expected:#?}");
    for max_entries in [0, 1, 2, 3, 7] {
        let entries = pages(&world, "s-varied", max_entries).await;
        let shown: Vec<_> = entries
            .into_iter()
            .map(|entry| {
                let is_doubt = entry.output.starts_with("in doubt");
                let output = if is_doubt {
                    "in doubt".to_owned()
                } else {
                    entry.output
                };
                (entry.seq, entry.tool, entry.input, output)
            })
            .collect();
        assert_eq!(shown, expected, "pages of {max_entries}");
    }
}

/// A page at the end of a long journal reads the nearest checkpoint and what comes after it.
#[tokio::test(start_paused = true)]
async fn a_page_of_the_log_costs_what_it_shows() {
    let world = World::new().await;
    let mut author = Author::new(&world, "s-long");
    let text = "t".repeat(200);
    let mut inputs = vec![start(vec![step("one", None), step("two", None)])];
    for number in [1, 2] {
        let name = attempt(number);
        for turn in 0..900_u32 {
            let before = turn.checked_sub(1);
            let results = before.map(|last| result(call(name, last, 0), "found"));
            let calls = [("pure", "{}")];
            inputs.push(report(
                name,
                results.into_iter().collect(),
                turn,
                &text,
                &calls,
            ));
        }
        let last = vec![result(call(name, 899, 0), "found")];
        inputs.push(report(name, last, 900, "", &[("step", STEP_DONE)]));
    }
    author.write(inputs).await;
    let last_seq = author.last_seq();
    assert!(last_seq > 3600);

    let before = world.faults.calls("ReadEvents");
    let last = page(&world, "s-long", last_seq - 20, 10).await;
    assert_eq!(last.entries.len(), 10);
    let read = world.faults.calls("ReadEvents") - before;
    assert!(read <= 2, "{read} pages of the journal were read");

    let all = pages(&world, "s-long", 500).await;
    assert_eq!(all.len(), expected(&author).len());
}

/// An answer fits into a message, however long the texts are.
#[tokio::test(start_paused = true)]
async fn a_page_of_the_log_fits_into_a_message() {
    let world = World::new().await;
    let mut author = Author::new(&world, "s-wide");
    let text = "t".repeat(60 * 1024);
    let mut inputs = vec![start(vec![step("one", None)])];
    for turn in 0..100 {
        inputs.push(report(attempt(1), Vec::new(), turn, &text, &[]));
    }
    author.write(inputs).await;
    assert_eq!(pages(&world, "s-wide", 0).await.len(), 100);
}

/// The listing shows the goals of the first runs, newest session first.
#[tokio::test(start_paused = true)]
async fn sessions_are_listed_with_their_goals() {
    let world = World::new().await;
    for number in 0..40 {
        world
            .start(crate::support::goal(&format!("goal {number}")))
            .await;
    }
    let before = world.faults.calls("ReadEvents");
    let listed = world.listed(15).await;
    assert_eq!(world.faults.calls("ReadEvents"), before);
    let titles: Vec<_> = listed.into_iter().map(|session| session.title).collect();
    let expected: Vec<_> = (0..40)
        .rev()
        .map(|number| format!("goal {number}"))
        .collect();
    assert_eq!(titles, expected);
}

/// A session is listed under the title that it was given, else under the goal of its first run. The
/// prefix of a filter is one of what is listed.
#[tokio::test(start_paused = true)]
async fn a_run_does_not_take_the_place_of_the_title() {
    let long = "🚀".repeat(201);
    let cut = "🚀".repeat(199) + "…";
    for (given, goal, title) in [
        ("given", "", "given"),
        ("given", "first", "given"),
        ("", "first", "first"),
        ("", &long, &cut),
    ] {
        let world = World::new().await;
        let request = pb::CreateSessionRequest {
            request_id: world.request_id(),
            title: given.to_owned(),
            ..pb::CreateSessionRequest::default()
        };
        let made = world.client.clone().create_session(request).await;
        let session = made.unwrap().into_inner().session;
        assert_eq!(world.listed(0).await[0].title, given);
        for goal in [goal, "second"] {
            let mut run = crate::support::chain(vec![crate::support::tool_step("pure")]);
            run.goal = goal.to_owned();
            let request = pb::StartRunRequest {
                session: session.clone(),
                request_id: world.request_id(),
                run: Some(run),
                ..pb::StartRunRequest::default()
            };
            let mut client = world.client.clone();
            world.until(client.start_run(request)).await.expect("a run");
            let mut attempt = world.attempt().await;
            attempt.report_result(0, 0, "made");
            assert!(attempt.settled().await);
            assert_eq!(world.listed(0).await[0].title, title);
            assert_eq!(with_prefix(&world, title).await, 1);
            assert_eq!(with_prefix(&world, "second").await, 0);
        }
    }
}

/// How many sessions are listed whose id or title begins with the text.
async fn with_prefix(world: &World, prefix: &str) -> usize {
    let filter = pb::SessionFilter {
        prefix: prefix.to_owned(),
        ..pb::SessionFilter::default()
    };
    let request = pb::ListSessionsRequest {
        filter: Some(filter),
        ..pb::ListSessionsRequest::default()
    };
    let page = world.client.clone().list_sessions(request).await;
    page.expect("a page").into_inner().sessions.len()
}

/// Who asks for one session is told the title that it was given, or else its goal.
#[tokio::test(start_paused = true)]
async fn a_session_without_a_title_shows_its_goal() {
    for (given, shown) in [("given", "given"), ("", "the goal")] {
        let world = World::new().await;
        let mut client = world.client.clone();
        let request = pb::CreateSessionRequest {
            request_id: world.request_id(),
            title: given.to_owned(),
            ..pb::CreateSessionRequest::default()
        };
        let made = client.create_session(request).await.unwrap().into_inner();
        let mut run = crate::support::chain(vec![crate::support::tool_step("pure")]);
        run.goal = "the goal".to_owned();
        let request = pb::StartRunRequest {
            session: made.session.clone(),
            request_id: world.request_id(),
            run: Some(run),
            ..pb::StartRunRequest::default()
        };
        client.start_run(request).await.unwrap();
        let request = pb::GetSessionRequest {
            session: made.session,
        };
        let session = client.get_session(request).await.unwrap().into_inner();
        assert_eq!(session.session.unwrap().title, shown);
    }
}
