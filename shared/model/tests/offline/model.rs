//! The model as a provider: events, pace, conversations, steps that a person described.

use crate::driver::{Stage, ask, offered};
use crate::folder::Folder;
use crate::folders::docs;
use cairn_engine::message::Message;
use cairn_model::offline::Offline;
use cairn_model::{ChatRequest, FinishReason, Model, Prices, StreamEvent};
use futures::StreamExt;
use std::time::{Duration, Instant};

fn step_request() -> ChatRequest {
    let context = "## Requirement\nFind it.\n\n## Plan overview\n1. Survey >> current\n\n## Current \
                   step (step 1)\nTitle: Survey\nDescription: List the files under \".\" and note.";
    ChatRequest {
        messages: vec![Message::system("s"), Message::user(context)],
        tools: offered().into(),
        ..ChatRequest::default()
    }
}

#[tokio::test]
async fn events_add_up_to_the_reply() {
    let model = Offline::new(Duration::ZERO);
    let expected = model.chat(&step_request()).await.unwrap();
    assert_eq!(expected.finish, FinishReason::ToolCalls);
    assert_eq!(expected.message.calls().next().unwrap().name, "list_files");
    let events: Vec<StreamEvent> = model
        .chat_stream(&step_request())
        .await
        .unwrap()
        .collect()
        .await;
    let (mut text, mut calls) = (String::new(), vec![]);
    for event in &events[..events.len() - 1] {
        match event {
            StreamEvent::AssistantTextDelta { text: delta } => text += delta,
            StreamEvent::ToolCall(call) => calls.push(call.clone()),
            other => panic!("{other:?} before the end"),
        }
    }
    assert_eq!(
        (text, calls),
        (
            expected.message.text(),
            expected.message.calls().cloned().collect()
        )
    );
    let reply = Box::new(expected);
    assert_eq!(events.last(), Some(&StreamEvent::TurnComplete { reply }));
}

#[tokio::test]
async fn pace_is_kept_and_changes_no_reply() {
    let pace = Duration::from_millis(30);
    let began = Instant::now();
    let slow = Offline::new(pace).chat(&step_request()).await.unwrap();
    assert!(began.elapsed() >= pace);
    assert_eq!(
        slow,
        Offline::new(Duration::ZERO)
            .chat(&step_request())
            .await
            .unwrap()
    );
}

#[test]
fn it_is_free_and_says_what_it_is() {
    let model = Offline::new(Duration::ZERO);
    let info = model.describe();
    assert_eq!(info.provider, "offline");
    assert_eq!(info.prices, Some(Prices::FREE));
    assert_eq!(model.estimate_tokens(&step_request().messages), 0);
}

#[test]
fn a_plan_by_a_person_is_carried_out_as_far_as_it_is_understood() {
    let dir = tempfile::tempdir().unwrap();
    docs(dir.path());
    let plan = [
        (
            "",
            "List the Markdown files under docs and look for \"Redis\" in them.",
        ),
        ("", "Run the linter."),
        ("Report", "Write what was found to report.md."),
    ]
    .map(|(title, description)| (title.to_owned(), description.to_owned()));
    let run = Stage::new(dir.path()).run_plan("Find it", &plan);
    assert!(
        run.steps[0]
            .summary
            .starts_with("2 of 4 files under docs (only *.md, *.markdown)")
    );
    assert!(
        run.steps[1]
            .summary
            .starts_with("offline is rule-based and cannot run commands")
    );
    Folder::of(dir.path(), "docs", &[".md"]).check(run.report(), &["Redis"]);
}

#[test]
fn a_conversation_is_answered_in_text() {
    let dir = tempfile::tempdir().unwrap();
    docs(dir.path());
    let stage = Stage::new(dir.path());
    let mut messages = vec![Message::system("s"), Message::user("hello there")];
    let reply = ask(&messages, offered());
    assert!(reply.calls().next().is_none() && reply.text().contains("no language model"));
    messages.push(reply);
    messages.push(Message::user(
        "Which files under docs mention Valkey?\n<system-reminder>\nRedis",
    ));
    let reply = ask(&messages, offered());
    let names: Vec<&str> = reply.calls().map(|call| call.name.as_str()).collect();
    assert_eq!(names, ["list_files", "search_files"]);
    messages.push(reply.clone());
    for call in reply.calls() {
        let arguments = serde_json::from_str(&call.arguments).unwrap();
        let result = crate::tools::call(&stage.root, usize::MAX, &call.name, &arguments).unwrap();
        messages.push(Message::tool(&call.id, result, false));
    }
    let reply = ask(&messages, offered());
    assert!(reply.calls().next().is_none());
    assert!(
        reply
            .text()
            .starts_with("2 of 5 files under docs mention \"Valkey\""),
        "{}",
        reply.text()
    );
}
