//! Requests that take too much of the window: the owner is asked before the model is.

use crate::bench::{Answer, Bench, reply};
use crate::owner::{Owner, model_step, outputs};
use cairn_engine::conversation::Op;
use cairn_engine::message::Message;
use cairn_model::ModelError;
use cairn_model::tokens::{estimate_request, estimate_tokens, estimate_tools};
use cairn_proto::executor::{AttemptStart, FullRequest};

/// A request has more tokens than a thousandth of this window.
const WINDOW: u64 = 1_000;

/// A step each of whose requests is reported.
fn always_full() -> AttemptStart {
    AttemptStart {
        compact_at_permille: 1,
        ..model_step()
    }
}

/// The request that is reported under this number.
async fn full(owner: &mut Owner, number: u64) -> FullRequest {
    let report = owner.report().await;
    assert_eq!(report.number, number);
    assert_eq!((report.reply, report.failure), (None, None));
    report.full.expect("a request")
}

#[tokio::test(start_paused = true)]
async fn a_request_has_what_was_counted_and_the_corrected_estimate_of_the_rest() {
    let start = AttemptStart {
        estimate_permille: 2_000,
        ..always_full()
    };
    let mut bench = Bench::with_window(WINDOW).await;
    let mut owner = bench.start(start).await;
    let first = full(&mut owner, 1).await;
    owner.ack(1);
    let asked = bench.asked().await;
    let estimated = estimate_request(&asked.request);
    let expected = FullRequest {
        tokens: 2 * estimated,
        estimated_tokens: estimated,
        window_tokens: WINDOW,
        max_output_tokens: 0,
        is_refused: false,
    };
    assert_eq!(first, expected);
    let (before, tools) = (
        asked.request.messages.clone(),
        estimate_tools(&asked.request.tools),
    );
    let mut answer = reply("I look.", &[("look", "{}")]);
    answer.usage.input_tokens = 700;
    asked.answer(Ok(answer));
    let sent = owner.report().await.reply.expect("a reply");
    assert_eq!(
        (sent.estimated_tokens, sent.window_tokens),
        (estimated, WINDOW)
    );
    bench.called().await.output("seen");
    owner.ack(2);
    let report = owner.report().await;
    assert_eq!(
        (report.number, outputs(&report)),
        (3, vec![(0, "seen")]),
        "held results travel with it"
    );
    let second = report.full.expect("a request");
    owner.ack(3);
    let asked = bench.asked().await;
    let counted = 700 * estimate_tokens(&before) / estimated;
    let newest = estimate_tokens(&asked.request.messages[before.len()..]);
    assert_eq!(second.tokens, counted + 2 * (newest + tools));
    assert_eq!(second.estimated_tokens, estimate_request(&asked.request));
}

/// The owner starts the attempt anew: it ends this stream, or only closes it.
#[tokio::test(start_paused = true)]
async fn the_end_of_the_stream_keeps_a_full_request_from_the_model() {
    for ends_it in [true, false] {
        let mut bench = Bench::with_window(WINDOW).await;
        let mut owner = bench.start(always_full()).await;
        full(&mut owner, 1).await;
        owner.hears_nothing().await;
        match ends_it {
            true => owner.end(1).await,
            false => drop(owner),
        }
        bench.is_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_reported_at_its_share_of_the_window() {
    let mut bench = Bench::with_window(WINDOW).await;
    let mut owner = bench.start(always_full()).await;
    let tokens = full(&mut owner, 1).await.tokens;
    drop(owner);
    bench.is_quiet().await;
    for (window, is_reported) in [(2 * tokens, true), (2 * tokens + 2, false)] {
        let mut bench = Bench::with_window(window).await;
        let start = AttemptStart {
            compact_at_permille: 500,
            ..model_step()
        };
        let mut owner = bench.start(start).await;
        match is_reported {
            true => {
                full(&mut owner, 1).await;
                owner.end(1).await;
            }
            false => {
                let asked = bench.asked().await;
                owner.end(0).await;
                asked.dropped().await;
            }
        }
    }
}

/// Once the owner lets a request be asked, it is asked with all that has come since.
#[tokio::test(start_paused = true)]
async fn what_comes_with_the_acknowledgement_is_in_the_request_and_has_to_fit() {
    let words = |count| Message::user("word ".repeat(count));
    let mut bench = Bench::with_window(WINDOW).await;
    let mut owner = bench.start(always_full()).await;
    full(&mut owner, 1).await;
    owner.changes(1, vec![Op::Append(words(100))]);
    let asked = bench.asked().await;
    assert_eq!(asked.said(), [words(100)]);
    asked.reply("Hm.", &[]);
    assert!(owner.report().await.reply.is_some());
    owner.ack(2);
    full(&mut owner, 3).await;
    // Now it does not fit any more, which the owner did not know.
    owner.changes(3, vec![Op::Append(words(1_000))]);
    let larger = full(&mut owner, 4).await;
    assert!(larger.tokens > WINDOW, "{larger:?}");
    owner.ack(4);
    let asked = bench.asked().await;
    assert_eq!(asked.said().last(), Some(&words(1_000)));
}

fn too_long() -> Answer {
    Err(ModelError::ContextLength {
        message: "too long".to_owned(),
    })
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_length_fails_the_attempt_if_nothing_can_be_compacted() {
    let start = AttemptStart {
        compact_at_permille: 700,
        ..model_step()
    };
    let mut bench = Bench::with_window(WINDOW).await;
    let mut owner = bench.start(start).await;
    bench.asked().await.answer(too_long());
    let refused = full(&mut owner, 1).await;
    assert_eq!(refused.tokens, WINDOW + 1, "it does not fit");
    assert!(refused.is_refused && refused.estimated_tokens < WINDOW);
    owner.ack(1);
    // Nothing can be compacted, and the provider would refuse the same request again.
    let report = owner.report().await;
    assert_eq!((report.number, report.full), (2, None));
    assert_eq!(report.failure.expect("a failure").reason, "ContextLength");
    owner.end(2).await;
    bench.is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn without_compactions_a_refusal_for_length_fails_the_attempt() {
    let mut bench = Bench::with_window(WINDOW).await;
    let mut owner = bench.start(model_step()).await;
    bench.asked().await.answer(too_long());
    let report = owner.report().await;
    assert_eq!(report.full, None);
    assert_eq!(report.failure.expect("a failure").reason, "ContextLength");
    owner.end(1).await;
}
