//! Providers' prompt caches: each request of an attempt begins with nearly all of the request before,
//! also while session memory changes. The model's server counts as the vendors' caches do.

mod counts;

use crate::support::CAIRN;
use cairn_testkit::model_server::{Answer, Asked, anthropic_reply, reply};
use cairn_testkit::{ModelServer, Site};
use counts::{Cache, Counted};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const TURNS: usize = 30;
const WRITES: usize = 10;
/// Turns from one write to session memory to the next: by the model, by a person, and so on.
const BETWEEN_WRITES: usize = TURNS / WRITES;
/// Hundredths of the request before that have to be read from the cache.
const LEAST_READ: u64 = 90;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Anthropic,
    OpenAi,
}

impl Dialect {
    fn provider(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
        }
    }

    fn reply(self, turn: usize, call: (&str, Value), counted: Counted) -> Answer {
        let text = format!("This is turn {turn}.");
        let Counted {
            tokens,
            read,
            written,
        } = counted;
        match self {
            Self::Anthropic => {
                let (name, input) = call;
                let id = format!("toolu_{turn}");
                let content = [
                    json!({"type": "text", "text": text}),
                    json!({"type": "tool_use", "id": id, "name": name, "input": input}),
                ];
                let usage = json!({
                    "input_tokens": tokens - read - written,
                    "cache_read_input_tokens": read,
                    "cache_creation_input_tokens": written,
                    "output_tokens": 20,
                });
                anthropic_reply(&content, &usage)
            }
            Self::OpenAi => {
                let Answer::Whole(status, body) = reply(&format!("call-{turn}"), &text, &[call])
                else {
                    unreachable!("a reply is whole");
                };
                let mut body: Value = serde_json::from_str(&body).expect("JSON");
                body["usage"] = json!({
                    "prompt_tokens": tokens,
                    "completion_tokens": 20,
                    "prompt_tokens_details": {"cached_tokens": read},
                });
                Answer::Whole(status, body.to_string())
            }
        }
    }
}

/// A model that writes to session memory in some turns, reads a file in others, and ends the step.
fn answer(asked: &Asked, dialect: Dialect, cache: &mut Cache, site: &Site) -> Answer {
    let (turn, counted) = match dialect {
        Dialect::Anthropic => cache.count_blocks(&asked.body),
        Dialect::OpenAi => cache.count_prefix(&asked.body),
    };
    let key = format!("fact-{turn}");
    let found =
        |turn: usize| format!("What was found in turn {turn}, in words that take some room.");
    let value = found(turn);
    // What a person wrote while the model thought is in the very next request.
    if turn % (2 * BETWEEN_WRITES) == BETWEEN_WRITES + 1 {
        assert!(asked.text.contains(&found(turn - 1)), "turn {turn}");
    }
    let call = match turn % (2 * BETWEEN_WRITES) {
        _ if turn + 1 == TURNS => ("step", json!({"complete": true, "summary": "Done."})),
        0 => ("session_memory_set", json!({"key": key, "value": value})),
        other => {
            if other == BETWEEN_WRITES {
                let set = site.run(&["memory", "set", &key, &value, "--session", "s"]);
                assert_eq!(set.code, Some(0), "{set:?}");
            }
            ("read_file", json!({"path": "docs/one.md"}))
        }
    };
    dialect.reply(turn, call, counted)
}

fn nearly_all_of_the_request_before_is_read_from_the_cache(dialect: Dialect) {
    let site = Arc::new(Site::new(CAIRN));
    let cache = Mutex::new(Cache::default());
    let there = Arc::clone(&site);
    let model = ModelServer::seeing(move |asked| {
        let mut cache = cache.lock().expect("no panic");
        answer(asked, dialect, &mut cache, &there)
    });
    let settings = format!(
        "\n[run]\nmax_turns = 100\nmax_tool_turns = 100\n\n[model]\ndefault = \"served\"\n\n\
         [models.served]\nprovider = \"{}\"\nmodel = \"served-1\"\nbase_url = \"{}\"\n\
         api_key = \"sk-none\"\n",
        dialect.provider(),
        model.url()
    );
    site.append("cairn.toml", &settings);
    let plan = json!({"steps": [{"title": "Look", "description": "Look at it."}]});
    site.write("plan.json", &plan.to_string());
    let ran = site.run(&["run", "--plan", "plan.json", "--session", "s"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    check(&site);
}

/// Checks the figures of the journal: Cairn read them from the server's replies.
fn check(site: &Site) {
    let journal = site.journal("s");
    let replies = journal.of_kind("reply_received");
    assert_eq!(replies.len(), TURNS);
    let number = |value: &Value| match value {
        Value::String(digits) => digits.parse().expect("a number"),
        value => value.as_u64().unwrap_or_default(),
    };
    let used = |reply: &&Value| {
        let usage = &reply["usage"];
        let (tokens, read) = ("input_tokens", "cached_input_tokens");
        (number(&usage[tokens]), number(&usage[read]))
    };
    let used: Vec<(u64, u64)> = replies.iter().map(used).collect();
    println!(
        "{:>5} {:>8} {:>8} {:>9}",
        "turn", "tokens", "read", "of before"
    );
    let mut findings = Vec::new();
    for (turn, pair) in (1..).zip(used.windows(2)) {
        let ((before, _), (tokens, read)) = (pair[0], pair[1]);
        assert!(before > 0, "the journal has no usage: {replies:?}");
        println!(
            "{turn:>5} {tokens:>8} {read:>8} {:>7} %",
            read * 100 / before
        );
        if read * 100 < before * LEAST_READ {
            findings.push(format!("turn {turn}: {read} of {before} tokens"));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
    // Each write of a person has reached the model. Its own are in its calls.
    assert_eq!(journal.of_kind("memory_set").len(), WRITES);
    let reminders = journal.of_kind("context_changed").into_iter();
    let reminders = reminders.filter(|event| event["ops"][0]["remind"].is_object());
    assert_eq!(reminders.count(), WRITES / 2);
}

#[test]
fn with_anthropics_protocol_nearly_all_of_the_request_before_is_read_from_the_cache() {
    nearly_all_of_the_request_before_is_read_from_the_cache(Dialect::Anthropic);
}

#[test]
fn with_openais_protocol_nearly_all_of_the_request_before_is_read_from_the_cache() {
    nearly_all_of_the_request_before_is_read_from_the_cache(Dialect::OpenAi);
}

/// A request of two messages after instructions that are long enough for a cache.
fn request(dialect: Dialect, system: &str, first: &str) -> Value {
    let mark = json!({"type": "ephemeral"});
    let text = |text: &str| json!({"type": "text", "text": text});
    let marked = |text: &str| json!({"type": "text", "text": text, "cache_control": mark});
    let system = system.repeat(2000);
    match dialect {
        Dialect::Anthropic => json!({
            "tools": [],
            "system": [marked(&system)],
            "messages": [
                {"role": "user", "content": [text(first), marked("second")]},
            ],
        }),
        Dialect::OpenAi => json!({
            "tools": [],
            "messages": [
                {"role": "system", "content": system},
                {"role": "user", "content": first},
                {"role": "user", "content": "second"},
            ],
        }),
    }
}

/// The tokens of a request, and the tokens that the cache has of the next one.
fn read_after(dialect: Dialect, before: &Value, after: &Value) -> (u64, u64) {
    let mut cache = Cache::default();
    let mut count = |body: &Value| match dialect {
        Dialect::Anthropic => cache.count_blocks(body).1,
        Dialect::OpenAi => cache.count_prefix(body).1,
    };
    let before = count(before);
    assert_eq!(before.read, 0);
    (before.tokens, count(after).read)
}

#[test]
fn what_follows_a_change_is_not_read_from_the_cache() {
    for dialect in [Dialect::Anthropic, Dialect::OpenAi] {
        let before = request(dialect, "aaaa", "first");
        let (tokens, read) = read_after(dialect, &before, &before);
        assert!(read * 100 > tokens * 90, "{dialect:?}: {read} of {tokens}");
        let (_, read) = read_after(dialect, &before, &request(dialect, "aaaa", "other"));
        assert!((1900..=2020).contains(&read), "{dialect:?}: {read}");
        let (_, read) = read_after(dialect, &before, &request(dialect, "bbbb", "first"));
        assert_eq!(read, 0, "{dialect:?}");
    }
}
