//! Summaries that an owner asks for in place of a step.

use crate::bench::{Asked, Bench, reply};
use crate::owner::{Owner, conversation, model_step};
use cairn_engine::conversation::{CompactedMessages, CompactionKind, Conversation, Entry};
use cairn_engine::message::{FinishReason, Message, ToolCall};
use cairn_model::{ChatReply, ChatRequest, ModelError, OpenAi, OpenAiConfig};
use cairn_proto::executor::{AttemptStart, RunStepResponse, SummaryReport, SummaryTask};
use serde_json::Value;
use std::sync::Arc;

const PROMPT: &str = "Sum up what was said.";
const MOST: u32 = 100;

/// Message 1 is what it began with, 2 a history view, 3 to 6 stand before the mark and 7 to 9 behind it.
/// `size` gives the words of each.
fn talk(size: impl Fn(u32) -> usize) -> Conversation {
    let mut said = conversation();
    let entries = |numbers: std::ops::RangeInclusive<u32>| {
        let entry = |number: u32| Entry {
            number,
            message: Arc::new(match number % 2 {
                0 => Message::assistant(words(number, size(number)), Vec::new()),
                _ => Message::user(words(number, size(number))),
            }),
            compaction: (number == 2).then_some(CompactionKind::History),
        };
        numbers.map(entry).collect::<Vec<_>>()
    };
    said.compressed = entries(2..=2);
    said.incremental = entries(3..=6);
    said.behind = entries(7..=9);
    said.last_number = 9;
    said
}

fn words(number: u32, count: usize) -> String {
    format!("Message {number}:{}", " word".repeat(count))
}

fn start(said: Conversation, messages: CompactedMessages) -> AttemptStart {
    AttemptStart {
        conversation: Some(said.into()),
        summary: Some(SummaryTask {
            messages: Some(messages.into()),
            prompt: PROMPT.to_owned(),
            max_output_tokens: MOST,
        }),
        compact_at_permille: 700,
        ..model_step()
    }
}

/// Messages 3 and 4.
fn before_mark() -> CompactedMessages {
    CompactedMessages {
        through: 4,
        ..CompactedMessages::default()
    }
}

/// Message 8.
fn behind_mark() -> CompactedMessages {
    CompactedMessages {
        behind_mark: true,
        after: 7,
        through: 8,
        ..CompactedMessages::default()
    }
}

/// The first messages of a request and then the prompt.
fn and_prompt(messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let prompt = Arc::new(Message::user(PROMPT));
    messages.iter().cloned().chain([prompt]).collect()
}

fn body(request: &ChatRequest) -> Value {
    let model = OpenAi::new(OpenAiConfig::new("http://127.0.0.1:1", "m")).expect("settings");
    let body = model.request_body(request).expect("a body");
    serde_json::from_slice(&body).expect("JSON")
}

/// The question for a summary of messages 3 and 4.
async fn asked_for_summary() -> (Bench, Owner, Asked) {
    let mut bench = Bench::new().await;
    let owner = bench.start(start(talk(|_| 1), before_mark())).await;
    let asked = bench.asked().await;
    (bench, owner, asked)
}

/// What became of the summary, in this report.
fn summary(report: RunStepResponse) -> SummaryReport {
    assert_eq!((report.reply, report.full), (None, None));
    *report.summary.expect("a summary or none")
}

#[tokio::test(start_paused = true)]
async fn a_summary_is_asked_of_the_beginning_of_the_conversation() {
    let (_bench, owner, asked) = asked_for_summary().await;
    let request = asked.request.clone();
    owner.end(0).await;
    asked.dropped().await;

    let mut bench = Bench::new().await;
    let step = AttemptStart {
        summary: None,
        ..start(talk(|_| 1), before_mark())
    };
    let owner = bench.start(step).await;
    let asked = bench.asked().await;
    let ordinary = asked.request.clone();
    owner.end(0).await;
    asked.dropped().await;

    // The system prompt, messages 1 and 2, and those to sum up.
    assert_eq!(request.messages, and_prompt(&ordinary.messages[..5]));
    assert_eq!(request.stable, 5);
    assert_eq!(request.options.max_output_tokens, Some(1_024));
    let [request, ordinary] = [&request, &ordinary].map(body);
    let [sent, known] = [&request, &ordinary].map(|body| body["messages"].as_array());
    let (sent, known) = (sent.expect("a list"), known.expect("a list"));
    assert_eq!(sent[..5], known[..5]);
    assert_eq!(request["tools"], ordinary["tools"]);
}

#[tokio::test(start_paused = true)]
async fn only_the_compressed_messages_may_be_summed_up() {
    let messages = CompactedMessages {
        with_compressed: true,
        ..CompactedMessages::default()
    };
    let said = talk(|_| 1);
    let expected = and_prompt(&said.messages()[..3]);
    let mut bench = Bench::new().await;
    let owner = bench.start(start(said, messages)).await;
    let asked = bench.asked().await;
    assert_eq!(asked.request.messages, expected);
    owner.end(0).await;
    asked.dropped().await;
}

/// What stands before the messages goes with them as long as it fits.
#[tokio::test(start_paused = true)]
async fn behind_the_mark_a_summary_has_all_that_is_before_it_or_nothing() {
    for (words_before, is_whole) in [(1, true), (300, false)] {
        let said = talk(|number| match number {
            3..=6 => words_before,
            _ => 1,
        });
        let all = said.messages();
        let expected = match is_whole {
            true => and_prompt(&all[..9]),
            false => and_prompt(&[&all[..3], &all[8..9]].concat()),
        };
        let mut bench = Bench::with_window(1_000).await;
        let owner = bench.start(start(said, behind_mark())).await;
        let asked = bench.asked().await;
        assert_eq!(asked.request.messages, expected);
        owner.end(0).await;
        asked.dropped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_for_a_summary_that_does_not_fit_is_reported() {
    for lets_ask in [true, false] {
        let said = talk(|number| if number == 8 { 900 } else { 1 });
        let mut bench = Bench::with_window(1_000).await;
        let mut owner = bench.start(start(said, behind_mark())).await;
        let report = owner.report().await;
        assert_eq!((report.number, report.summary), (1, None));
        let full = report.full.expect("a question");
        assert!(full.tokens > 900 && full.window_tokens == 1_000, "{full:?}");
        if !lets_ask {
            owner.end(1).await;
            bench.is_quiet().await;
            continue;
        }
        owner.ack(1);
        bench.asked().await.reply("They looked.", &[]);
        let report = owner.report().await;
        assert_eq!(
            (report.number, summary(report).text.as_str()),
            (2, "They looked.")
        );
        owner.end(2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_summary_is_reported_and_its_calls_are_not_made() {
    let (mut bench, mut owner, asked) = asked_for_summary().await;
    // No part of it goes to those who watch.
    asked.writes("They ");
    let calls = [("look", "{}"), ("send", "{}")];
    asked.reply("I look first.", &calls);
    let asked = bench.asked().await;
    assert!(asked.request.tools.is_empty());
    asked.reply("They looked.", &[]);
    let report = owner.report().await;
    assert_eq!((report.number, &report.failure), (1, &None));
    let summary = summary(report);
    assert_eq!(summary.text, "They looked.");
    assert_eq!((&*summary.provider, &*summary.model), ("test", "played-1"));
    let usage = summary.usage.expect("usage");
    assert_eq!((usage.input_tokens, usage.model_calls), (10, 2));
    // The model is asked nothing else.
    owner.ack(1);
    bench.is_quiet().await;
    owner.end(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_reply_without_text_is_asked_for_once_more_without_tools() {
    // The last is asked for twice each time, as any reply with nothing in it.
    let with_call = vec![("look", "{}")];
    for (calls, questions) in [(with_call, 1), (Vec::new(), 2)] {
        for writes_at_last in [true, false] {
            let (mut bench, mut owner, mut asked) = asked_for_summary().await;
            let first = asked.request.clone();
            assert_eq!(first.tools.len(), 5);
            for _ in 1..questions {
                asked.reply("", &calls);
                asked = bench.asked().await;
                assert_eq!(asked.request.tools.len(), 5);
            }
            asked.reply("", &calls);
            asked = bench.asked().await;
            assert_eq!(asked.request.messages, first.messages);
            assert!(asked.request.tools.is_empty());
            if !writes_at_last {
                for _ in 1..questions {
                    asked.reply("", &calls);
                    asked = bench.asked().await;
                }
            }
            match writes_at_last {
                true => asked.reply("They looked.", &[]),
                false => asked.reply("", &calls),
            }
            let report = owner.report().await;
            let reason = report.failure.as_ref().map(|failure| &*failure.reason);
            let wants = (!writes_at_last).then_some("EmptyReply");
            assert_eq!(reason, wants);
            let usage = summary(report).usage.expect("usage");
            let last = if writes_at_last { 1 } else { questions };
            assert_eq!(usage.model_calls, questions + last);
            assert_eq!(usage.input_tokens, 5 * u64::from(questions + last));
            owner.end(1).await;
            bench.is_quiet().await;
        }
    }
}

/// A server may refuse calls in a conversation where no tools are offered.
#[tokio::test(start_paused = true)]
async fn a_question_without_tools_has_calls_as_text() {
    let mut said = talk(|_| 1);
    let call = ToolCall {
        id: "id-0".to_owned(),
        name: "look".to_owned(),
        arguments: "{}".to_owned(),
    };
    said.incremental[0].message = Arc::new(Message::assistant("", vec![call]));
    said.incremental[1].message = Arc::new(Message::tool("id-0", "seen", false));
    let mut bench = Bench::new().await;
    let owner = bench.start(start(said, before_mark())).await;
    let asked = bench.asked().await;
    assert_eq!(asked.request.messages[3].calls().count(), 1);
    asked.reply("", &[("look", "{}")]);
    let asked = bench.asked().await;
    let messages = &asked.request.messages;
    assert_eq!(messages[3].calls().count(), 0);
    assert_eq!(messages[3].text().trim(), "Tool call id-0: look {}");
    assert_eq!(messages.len(), 6, "the prompt is the last");
    owner.end(0).await;
    asked.dropped().await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_beside_the_summary_does_not_end_the_attempt() {
    let refused = ChatReply {
        finish: FinishReason::Refusal,
        ..reply("I cannot help.", &[])
    };
    let no_key = ModelError::Auth {
        message: "bad key".to_owned(),
    };
    for (answer, reason, model_calls) in [(Ok(refused), "refused", 1), (Err(no_key), "Auth", 0)] {
        let (mut bench, mut owner, asked) = asked_for_summary().await;
        asked.answer(answer);
        let report = owner.report().await;
        let failure = report.failure.as_ref().expect("a failure");
        assert_eq!(failure.reason, reason);
        let summary = summary(report);
        assert_eq!(summary.text, "");
        assert_eq!(summary.usage.expect("usage").model_calls, model_calls);
        // The stream stays open until the owner ends it.
        owner.ack(1);
        owner.hears_nothing().await;
        owner.end(1).await;
        bench.is_quiet().await;
    }
}

/// The owner then asks for a summary of less, or lets the failure be reported.
#[tokio::test(start_paused = true)]
async fn a_question_for_a_summary_that_is_refused_for_its_length_is_reported() {
    for asks_for_less in [true, false] {
        let mut bench = Bench::with_window(1_000).await;
        let mut owner = bench.start(start(talk(|_| 1), before_mark())).await;
        bench.asked().await.answer(Err(ModelError::ContextLength {
            message: "too long".to_owned(),
        }));
        let report = owner.report().await;
        assert_eq!((report.number, &report.summary), (1, &None));
        let full = report.full.expect("a question");
        assert_eq!(full.tokens, 1_001, "it does not fit");
        if asks_for_less {
            owner.end(1).await;
            bench.is_quiet().await;
            continue;
        }
        owner.ack(1);
        let report = owner.report().await;
        let failure = report.failure.as_ref().expect("a failure");
        assert_eq!(failure.reason, "ContextLength");
        assert_eq!(summary(report).text, "");
        owner.end(2).await;
        bench.is_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_summary_of_messages_that_are_not_there_is_refused() {
    let unknown = CompactedMessages {
        through: 99,
        ..CompactedMessages::default()
    };
    let mut without = start(talk(|_| 1), before_mark());
    without.summary.as_mut().expect("a task").messages = None;
    for start in [start(talk(|_| 1), unknown), without] {
        let bench = Bench::new().await;
        let mut owner = bench.start(start).await;
        let error = owner.error().await;
        assert_eq!(error.violations()[0].field, "start.summary.messages");
    }
}

/// Hooks are asked about requests of the attempt alone.
#[tokio::test(start_paused = true)]
async fn a_retry_of_a_summary_waits_for_no_owner() {
    let mut bench = Bench::new().await;
    let start = AttemptStart {
        reports_retries: true,
        ..start(talk(|_| 1), before_mark())
    };
    let mut owner = bench.start(start).await;
    let cut = ModelError::Stream {
        message: "cut".to_owned(),
    };
    bench.asked().await.answer(Err(cut));
    bench.asked().await.reply("So far.", &[]);
    let report = owner.report().await;
    assert_eq!((report.number, report.retry.clone()), (1, None));
    assert_eq!(summary(report).text, "So far.");
}
