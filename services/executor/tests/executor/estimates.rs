//! Estimates against a server that counts with a vocabulary, which no estimate knows.

mod texts;

use crate::bench::{Asked, Bench, reply};
use crate::owner::Owner;
use crate::resume::session::OwnedSession;
use cairn_engine::message::{Message, Notice, Part};
use cairn_model::ChatRequest;
use cairn_proto::executor::run_step_request::Message as ToExecutor;
use cairn_proto::executor::{AttemptStart, FullRequest};
use std::collections::HashMap;
use texts::{KINDS, Texts};
use tiktoken_rs::o200k_base_singleton;

const REPLIES: usize = 20;
/// A request has more tokens than a thousandth of this window, so each is reported.
const WINDOW: u64 = 1_000;
/// What a server puts around a message, a call, a tool and all messages.
const AROUND_MESSAGE: u64 = 4;
const AROUND_CALL: u64 = 6;
const AROUND_TOOL: u64 = 9;
const AROUND_ALL: u64 = 3;

/// A server that counts tokens, each text once.
#[derive(Debug)]
struct Counter {
    /// What it counts for a thousand tokens of the vocabulary.
    permille: u64,
    known: HashMap<String, u64>,
}

impl Counter {
    fn text(&mut self, text: &str) -> u64 {
        if let Some(known) = self.known.get(text) {
            return *known;
        }
        let tokens = o200k_base_singleton().count_ordinary(text) as u64;
        self.known.insert(text.to_owned(), tokens);
        tokens
    }

    fn message(&mut self, message: &Message) -> u64 {
        let parts = message.parts.iter().map(|part| match part {
            Part::Text(text) | Part::Notice(Notice { text, .. }) => self.text(text),
            Part::Call(call) => AROUND_CALL + self.text(&call.name) + self.text(&call.arguments),
            Part::Result(result) => self.text(&result.text),
            Part::Media(_) | Part::Opaque(_) => panic!("none is sent: {part:?}"),
        });
        AROUND_MESSAGE + parts.sum::<u64>()
    }

    fn request(&mut self, request: &ChatRequest) -> u64 {
        let mut tokens = AROUND_ALL;
        for message in &request.messages {
            tokens += self.message(message);
        }
        for tool in request.tools.iter() {
            let texts = [&tool.name, &tool.description, &tool.parameters.to_string()];
            tokens += AROUND_TOOL + texts.map(|text| self.text(text)).iter().sum::<u64>();
        }
        tokens * self.permille / 1_000
    }
}

/// A step, as its session has it. Every request is reported before it is asked.
fn start(owned: &mut OwnedSession) -> AttemptStart {
    AttemptStart {
        compact_at_permille: 1,
        estimate_permille: owned.estimate_permille(),
        ..owned.start()
    }
}

/// The next question to the model, and what was reported of it.
async fn question(
    bench: &mut Bench,
    owner: &mut Owner,
    owned: &mut OwnedSession,
) -> (FullRequest, Asked) {
    loop {
        let mut report = owner.report().await;
        let full = report.full.take();
        owner.send(ToExecutor::Acknowledgement(owned.take(report)));
        if let Some(full) = full {
            return (full, bench.asked().await);
        }
    }
}

/// The model replies to 20 questions of a step, each time with a text and a call that brings another one.
async fn converse(
    texts: &mut Texts,
    counter: &mut Counter,
    bench: &mut Bench,
    owned: &mut OwnedSession,
) -> Owner {
    let mut owner = bench.start(start(owned)).await;
    for turn in 0..REPLIES {
        let (_, asked) = question(bench, &mut owner, owned).await;
        let arguments = format!(r#"{{"at":{turn}}}"#);
        let mut answer = reply(&texts.short(), &[("look", arguments.as_str())]);
        answer.usage.input_tokens = counter.request(&asked.request);
        asked.answer(Ok(answer));
        let report = owner.report().await;
        let called = bench.called().await;
        owner.send(ToExecutor::Acknowledgement(owned.take(report)));
        called.output(&texts.long());
    }
    owner
}

/// The next request has as many tokens as was reported, but for a tenth. The owner then goes.
async fn check_next(
    what: &str,
    counter: &mut Counter,
    bench: &mut Bench,
    mut owner: Owner,
    owned: &mut OwnedSession,
) -> FullRequest {
    let (full, asked) = question(bench, &mut owner, owned).await;
    let counted = counter.request(&asked.request);
    let reported = full.tokens;
    assert!(
        reported.abs_diff(counted) * 10 < counted,
        "{what}: {reported} tokens in place of {counted}, estimated as {}",
        full.estimated_tokens
    );
    drop(owner);
    asked.dropped().await;
    full
}

#[tokio::test(start_paused = true)]
async fn after_20_replies_a_request_is_estimated_within_a_tenth() {
    // A server may have another vocabulary. What is learned of it holds for requests of other messages.
    let mut counter = Counter {
        permille: 0,
        known: HashMap::new(),
    };
    for permille in [1_000, 1_400] {
        counter.permille = permille;
        for kind in KINDS {
            let what = |which: &str| format!("{kind:?} at {permille}, {which}");
            let mut texts = Texts::of(kind);
            let mut owned = OwnedSession::of_step();
            let mut bench = Bench::with_window(WINDOW).await;
            let (counter, bench, owned) = (&mut counter, &mut bench, &mut owned);
            let owner = converse(&mut texts, counter, bench, owned).await;
            check_next(&what("next"), counter, bench, owner, owned).await;

            let mut again = start(owned);
            let conversation = again.conversation.as_mut().expect("a conversation");
            conversation.measured.take().expect("a count");
            let owner = bench.start(again).await;
            let full = check_next(&what("not counted"), counter, bench, owner, owned).await;
            let factor = u64::from(owned.estimate_permille());
            assert_eq!(full.tokens, full.estimated_tokens * factor / 1_000);

            let view: Vec<_> = (0..3).map(|_| texts.short()).collect();
            owned.compact(5, &view.join("\n"));
            let owner = bench.start(start(owned)).await;
            let smaller = check_next(&what("compacted"), counter, bench, owner, owned).await;
            assert!(smaller.tokens < full.tokens / 2, "{smaller:?}");
        }
    }
}
