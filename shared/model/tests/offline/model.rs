//! The model as a provider: events, pace, price.

use crate::driver::{offered, tools_of_a_step};
use cairn_engine::message::Message;
use cairn_model::offline::Offline;
use cairn_model::stream::collect;
use cairn_model::{ChatRequest, FinishReason, Model, Prices};
use std::time::{Duration, Instant};

fn step_request() -> ChatRequest {
    let context = "## Requirement\nFind it.\n\n## Plan overview\n1. Survey >> current\n\n## Current \
                   step (step 1)\nTitle: Survey\nDescription: List the files.";
    ChatRequest {
        tools: tools_of_a_step().into(),
        ..ChatRequest::new([Message::system("s"), Message::user(context)])
    }
}

#[tokio::test]
async fn a_stream_adds_up_to_the_reply() {
    let model = Offline::new(Duration::ZERO);
    let expected = model.chat(&step_request()).await.unwrap();
    assert_eq!(expected.finish, FinishReason::ToolCalls);
    assert_eq!(expected.message.calls().next().unwrap().name, "list_files");
    let stream = model.chat_stream(&step_request()).await.unwrap();
    assert_eq!(collect(stream, |_| {}).await.unwrap(), expected);
}

#[tokio::test]
async fn pace_is_kept_and_changes_no_reply() {
    let pace = Duration::from_millis(30);
    let began = Instant::now();
    let slow = Offline::new(pace).chat(&step_request()).await.unwrap();
    assert!(began.elapsed() >= pace);
    let quick = Offline::new(Duration::ZERO).chat(&step_request()).await;
    assert_eq!(slow, quick.unwrap());
}

#[tokio::test]
async fn it_is_free_and_calls_no_tool_that_is_not_offered() {
    let model = Offline::new(Duration::ZERO);
    assert_eq!(model.describe().provider, "offline");
    assert_eq!(model.describe().prices, Some(Prices::FREE));
    assert_eq!(model.estimate_tokens(&step_request().messages), 0);
    let request = ChatRequest {
        tools: offered(&["step"]).into(),
        ..step_request()
    };
    let reply = model.chat(&request).await.unwrap().message;
    let call = reply.calls().next().unwrap();
    assert_eq!(call.name, "step");
    assert!(call.arguments.contains("not offered"), "{call:?}");
}
