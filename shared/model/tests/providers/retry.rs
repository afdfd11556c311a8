//! Retries, on a paused clock: the model is scripted and nothing outside the test is waited for.

use crate::support::{ask, opaque};
use async_trait::async_trait;
use cairn_engine::failure::Failure;
use cairn_engine::message::{Message, Part, Role, Usage};
use cairn_model::{
    ChatReply, ChatRequest, FinishReason, Jitter, Model, ModelError, ModelInfo, Progress,
    RetryPolicy, chat_with_retry, stream_with_retry,
};
use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Has these outcomes, the last one first, and then answers; each call takes a while.
#[derive(Debug)]
struct Flaky {
    outcomes: Mutex<Vec<Result<ChatReply, ModelError>>>,
    takes: Duration,
}

impl Flaky {
    fn new(errors: Vec<ModelError>) -> Self {
        Self::of(errors.into_iter().map(Err).collect())
    }

    fn of(mut outcomes: Vec<Result<ChatReply, ModelError>>) -> Self {
        outcomes.reverse();
        Self {
            outcomes: Mutex::new(outcomes),
            takes: Duration::ZERO,
        }
    }
}

/// A reply of these parts.
fn reply(parts: Vec<Part>) -> ChatReply {
    ChatReply {
        message: Message {
            role: Role::Assistant,
            parts,
        },
        usage: Usage {
            output_tokens: 3,
            model_calls: 1,
            ..Usage::default()
        },
        finish: FinishReason::Stop,
        model: "flaky".to_owned(),
    }
}

fn text(text: &str) -> Part {
    Part::Text(text.to_owned())
}

#[async_trait]
impl Model for Flaky {
    async fn chat(&self, _request: &ChatRequest) -> Result<ChatReply, ModelError> {
        tokio::time::sleep(self.takes).await;
        let outcome = self.outcomes.lock().expect("not poisoned").pop();
        outcome.unwrap_or_else(|| Ok(reply(vec![text("done")])))
    }

    fn estimate_tokens(&self, _messages: &[Arc<Message>]) -> u64 {
        0
    }

    fn describe(&self) -> ModelInfo {
        ModelInfo {
            provider: "flaky".to_owned(),
            name: "flaky".to_owned(),
            window_tokens: 0,
            vision: false,
            prices: None,
        }
    }
}

fn server() -> ModelError {
    ModelError::Server {
        status: 500,
        message: "oops".to_owned(),
    }
}

fn limit(seconds: Option<u64>) -> ModelError {
    ModelError::RateLimit {
        message: "slow down".to_owned(),
        retry_after: seconds.map(Duration::from_secs),
    }
}

fn auth() -> ModelError {
    ModelError::Auth {
        message: "no".to_owned(),
    }
}

fn policy() -> RetryPolicy {
    RetryPolicy {
        min_delay: Duration::from_secs(1),
        max_delay: Duration::from_secs(10),
        jitter: Jitter::Off,
        ..RetryPolicy::default()
    }
}

/// The outcome, the waits told of, and the time that it took.
async fn run(
    model: &Flaky,
    policy: &RetryPolicy,
) -> (
    Result<ChatReply, ModelError>,
    Vec<(u32, Duration)>,
    Duration,
) {
    let started = Instant::now();
    let mut waits = Vec::new();
    let reported = |attempt, _: &ModelError, wait| waits.push((attempt, wait));
    let outcome = chat_with_retry(model, &ask("x"), policy, reported).await;
    (outcome, waits, started.elapsed())
}

fn seconds(waits: &[(u32, Duration)]) -> Vec<u64> {
    waits.iter().map(|(_, wait)| wait.as_secs()).collect()
}

#[tokio::test(start_paused = true)]
async fn waits_double_up_to_the_longest_and_attempts_count_from_one() {
    let model = Flaky::new((0..6).map(|_| server()).collect());
    let (outcome, waits, elapsed) = run(&model, &policy()).await;
    assert_eq!(outcome.expect("a reply").message.text(), "done");
    assert_eq!(seconds(&waits), [1, 2, 4, 8, 10, 10]);
    assert_eq!(
        waits
            .iter()
            .map(|(attempt, _)| *attempt)
            .collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6]
    );
    assert_eq!(elapsed, Duration::from_secs(35), "it really waited");
}

#[tokio::test(start_paused = true)]
async fn a_provider_is_not_asked_before_the_time_it_names() {
    let model = Flaky::new(vec![limit(Some(5)), limit(None), limit(Some(60))]);
    let (outcome, waits, _) = run(&model, &policy()).await;
    assert!(outcome.is_ok());
    // The time named on top of our own wait; our own; also when it is longer than any of our own.
    assert_eq!(seconds(&waits), [6, 2, 64]);
}

#[tokio::test(start_paused = true)]
async fn a_time_that_is_too_far_away_ends_the_retries_at_once_and_is_named() {
    let model = Flaky::new(vec![limit(Some(5)), limit(Some(3_600))]);
    let (outcome, waits, elapsed) = run(&model, &policy()).await;
    assert_eq!((seconds(&waits), elapsed.as_secs()), (vec![6], 6));
    let failure = Failure::from(outcome.expect_err("too long"));
    assert!(failure.is_recoverable());
    assert_eq!(
        failure.message,
        "the provider asks to slow down and to wait 3600s: slow down"
    );
}

#[tokio::test(start_paused = true)]
async fn an_error_that_may_pass_is_recoverable_when_the_retries_are_used_up() {
    let timeout = || ModelError::Timeout {
        after: Duration::from_secs(1),
    };
    let stream = || ModelError::Stream {
        message: "cut".to_owned(),
    };
    for error in [server(), limit(None), timeout(), stream()] {
        let model = Flaky::new(vec![error; 100]);
        let (outcome, waits, _) = run(&model, &policy()).await;
        assert_eq!(waits.len(), 8);
        let failure = Failure::from(outcome.expect_err("used up"));
        assert!(failure.is_recoverable(), "{failure:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_may_pass_is_tried_again() {
    let timeout = ModelError::Timeout {
        after: Duration::from_secs(1),
    };
    let stream = ModelError::Stream {
        message: "cut".to_owned(),
    };
    for error in [limit(None), timeout, stream, server()] {
        let (outcome, waits, _) = run(&Flaky::new(vec![error]), &policy()).await;
        assert!(outcome.is_ok());
        assert_eq!(waits.len(), 1);
    }
    let message = || "no".to_owned();
    for error in [
        auth(),
        ModelError::ContextLength { message: message() },
        ModelError::BadRequest { message: message() },
        ModelError::BadAnswer { message: message() },
    ] {
        let reason = error.reason();
        let (outcome, waits, elapsed) = run(&Flaky::new(vec![error]), &policy()).await;
        assert_eq!(outcome.expect_err("final").reason(), reason);
        assert_eq!((waits.len(), elapsed), (0, Duration::ZERO));
    }
}

#[tokio::test(start_paused = true)]
async fn retries_end_with_their_number_and_with_the_time() {
    let many = || Flaky::new((0..100).map(|_| server()).collect());
    let two = RetryPolicy {
        max_retries: 2,
        ..policy()
    };
    let (outcome, waits, _) = run(&many(), &two).await;
    assert_eq!(
        (outcome.expect_err("used up").reason(), waits.len()),
        ("Server", 2)
    );
    let (outcome, waits, _) = run(&many(), &RetryPolicy::never()).await;
    assert!(outcome.is_err() && waits.is_empty());

    // The attempts take time too: 2 + 1 + 2 + 2 + 2 = 9, and the next wait of 4 is too much.
    let slow = Flaky {
        takes: Duration::from_secs(2),
        ..many()
    };
    let ten = RetryPolicy {
        max_elapsed: Duration::from_secs(10),
        ..policy()
    };
    let (outcome, waits, elapsed) = run(&slow, &ten).await;
    assert!(outcome.is_err());
    assert_eq!(
        (seconds(&waits), elapsed),
        (vec![1, 2], Duration::from_secs(9))
    );
}

#[tokio::test(start_paused = true)]
async fn a_reply_with_nothing_in_it_is_asked_for_once_more() {
    let thought = || opaque("openai", "reasoning_content", &serde_json::json!("hm"));
    let fields = opaque(
        "openai",
        "message_fields",
        &serde_json::json!({"name": "M"}),
    );
    let cases = [
        (vec![], "reply is empty"),
        (vec![fields], "reply is empty"),
        (vec![text(" \n")], "reply is blank"),
        (vec![thought(), text("\n")], "reply is only reasoning"),
    ];
    for (parts, shown) in cases {
        let empty = reply(parts);
        // One is repeated, and what it used up counts.
        let (outcome, waits, _) = run(&Flaky::of(vec![Ok(empty.clone())]), &policy()).await;
        let usage = outcome.expect("a reply").usage;
        assert_eq!((usage.output_tokens, usage.model_calls), (6, 2));
        assert_eq!(seconds(&waits), [1]);
        // Two are an error, also with another error between them.
        for between in [vec![], vec![Err(server())]] {
            let waits_before = between.len() + 1;
            let outcomes = [vec![Ok(empty.clone())], between, vec![Ok(empty.clone())]].concat();
            let (outcome, waits, _) = run(&Flaky::of(outcomes), &policy()).await;
            let error = outcome.expect_err("nothing came");
            let usage = error.usage().expect("usage of both");
            assert_eq!((usage.output_tokens, usage.model_calls), (6, 2));
            let failure = Failure::from(error);
            assert_eq!(failure.reason, "EmptyReply");
            assert!(failure.message.contains(shown), "{failure}");
            assert_eq!(waits.len(), waits_before);
        }
        let (outcome, waits, _) = run(&Flaky::of(vec![Ok(empty)]), &RetryPolicy::never()).await;
        assert_eq!(outcome.expect_err("no retry").reason(), "EmptyReply");
        assert!(waits.is_empty(), "{waits:?}");
    }
    // Their ends say why they have neither text nor calls.
    for finish in [FinishReason::Refusal, FinishReason::Length] {
        let ended = ChatReply {
            finish,
            ..reply(vec![thought()])
        };
        let (outcome, waits, _) = run(&Flaky::of(vec![Ok(ended.clone())]), &policy()).await;
        assert_eq!((outcome, waits), (Ok(ended), vec![]));
    }
}

#[tokio::test(start_paused = true)]
async fn jitter_prolongs_each_wait_by_a_part_that_the_seed_fixes() {
    let with = |jitter| RetryPolicy { jitter, ..policy() };
    let waits = async |jitter| {
        let model = Flaky::new((0..4).map(|_| server()).collect());
        run(&model, &with(jitter)).await.1
    };
    let one = waits(Jitter::Seeded(1)).await;
    assert_eq!(one, waits(Jitter::Seeded(1)).await);
    assert_ne!(one, waits(Jitter::Seeded(2)).await);
    assert_ne!(waits(Jitter::Random).await, waits(Jitter::Random).await);
    for ((_, wait), base) in one.iter().zip([1, 2, 4, 8]) {
        let base = Duration::from_secs(base);
        assert!(
            *wait >= base && *wait <= (base * 2).min(Duration::from_secs(10)),
            "{one:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_that_cannot_stream_gives_its_text_at_once() {
    let model = Flaky::new(vec![server(), limit(Some(5))]);
    let started = Instant::now();
    let mut seen = Vec::new();
    let reply = stream_with_retry(&model, &ask("x"), &policy(), |progress| {
        seen.push(match progress {
            Progress::Text(text) => text.to_owned(),
            Progress::Retry {
                attempt,
                error,
                wait,
            } => format!("{attempt} {} {wait:?}", error.reason()),
        });
        ready(())
    })
    .await
    .expect("a reply");
    assert_eq!(reply.message.text(), "done");
    assert_eq!(seen, ["1 Server 1s", "2 RateLimit 7s", "done"]);
    assert_eq!(started.elapsed(), Duration::from_secs(8));
}
