//! Calls of `code_generation_tool`, which the executor carries out by asking the attempt's model.

use crate::bench::{Answer, Asked, Bench, executor, reply, within};
use crate::owner::{
    Owner, attempt, call_ref, catalogue, model_step, outputs, owners_result, permit,
};
use cairn_engine::decide::CODE_GENERATION;
use cairn_engine::message::{FinishReason, Role};
use cairn_executor::Config;
use cairn_model::offline::Offline;
use cairn_model::{ModelError, ModelRegistry, PromptTemplate, prompt};
use cairn_proto::event::Effect;
use cairn_proto::executor::{AttemptStart, CallResult, OfferedTool, PermittedCall};
use cairn_rpc::{Address, Link};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const ADD: &str = r#"{"task":"Add two numbers."}"#;
/// An answer that is right for [`ADD`].
const FILES: &str =
    r#"{"files":[{"path":"src/add.py","text":"def add(a, b):\n    return a + b\n"}]}"#;

fn permitted(arguments: &str) -> PermittedCall {
    PermittedCall {
        not_after_unix_ms: 0,
        ..permit(call_ref(0, 0), CODE_GENERATION, arguments, Effect::Pure)
    }
}

/// A bench whose owner permits this call of the model's first reply.
async fn after_permit(start: AttemptStart, arguments: &str) -> (Bench, Owner) {
    after_permit_in(Config::default(), start, arguments).await
}

async fn after_permit_in(config: Config, start: AttemptStart, arguments: &str) -> (Bench, Owner) {
    let mut bench = Bench::with(config).await;
    let mut owner = bench.start(start).await;
    let calls = [(CODE_GENERATION, arguments)];
    bench.asked().await.reply("", &calls);
    assert_eq!(owner.report().await.number, 1);
    owner.ack_with(1, vec![permitted(arguments)], Vec::new());
    (bench, owner)
}

/// The one result of the next report.
async fn result(owner: &mut Owner) -> CallResult {
    let mut report = owner.report().await;
    assert_eq!((report.results.len(), report.reply), (1, None));
    report.results.remove(0)
}

/// The texts of a question, the system prompt first.
fn texts(asked: &Asked) -> Vec<String> {
    let messages = asked.request.messages.iter();
    messages.map(|message| message.text()).collect()
}

fn model_calls(result: &CallResult) -> Option<u32> {
    let usage = result.usage.as_ref();
    usage.map(|usage| usage.model_calls)
}

#[tokio::test(start_paused = true)]
async fn the_model_of_the_attempt_writes_the_files() {
    let (mut bench, mut owner) = after_permit(model_step(), ADD).await;
    let asked = bench.asked().await;
    assert_eq!(asked.request.messages[0].role, Role::System);
    assert_eq!(texts(&asked), [prompt::CODE_GENERATION, "Add two numbers."]);
    assert!(asked.request.tools.is_empty());
    // No part of it is text of the attempt's reply.
    asked.writes("```json\n{");
    owner.hears_nothing().await;
    let fenced = format!("```json\n{FILES}\n```");
    asked.answer(Ok(reply(&fenced, &[])));
    let result = result(&mut owner).await;
    assert_eq!(result.call, Some(call_ref(0, 0)));
    assert_eq!((result.is_error, result.reason.as_str()), (false, ""));
    let files: Value = serde_json::from_str(FILES).expect("JSON");
    assert_eq!(result.output, format!("{files:#}"));
    assert_eq!((&*result.provider, &*result.model), ("test", "played-1"));
    let usage = result.usage.expect("usage");
    assert_eq!((usage.input_tokens, usage.output_tokens), (5, 2));
    assert_eq!((usage.cost_nano_usd, usage.model_calls), (1, 1));
    // What it cost is durable before the model is asked again.
    bench.is_quiet().await;
    owner.ack(2);
    let asked = bench.asked().await;
    assert_eq!(asked.said()[1].text(), result.output);
    owner.end(2).await;
    asked.dropped().await;
}

#[tokio::test(start_paused = true)]
async fn prompts_of_the_operator_are_sent_in_place_of_the_built_in_ones() {
    let own = [
        ("code_generation", "Write {\"files\": []}."),
        ("code_repair", "Again, it {problem}."),
    ];
    let own = own.map(|(name, text)| PromptTemplate::new(name, text));
    let prompts = prompt::Prompts::new(own, BTreeMap::new());
    let config = Config {
        prompts: Arc::new(prompts.expect("no fault")),
        ..Config::default()
    };
    let (mut bench, mut owner) = after_permit_in(config, model_step(), ADD).await;
    let asked = bench.asked().await;
    assert_eq!(texts(&asked)[0], "Write {\"files\": []}.");
    asked.reply("no files", &[]);
    let asked = bench.asked().await;
    let repair = texts(&asked).pop().expect("a message");
    assert_eq!(repair, "Again, it has no JSON object.");
    asked.reply(FILES, &[]);
    assert!(!result(&mut owner).await.is_error);
}

/// It is paid for, so it begins only once the reply that asks for it is durable.
#[tokio::test(start_paused = true)]
async fn a_call_never_begins_without_its_permit() {
    let mut bench = Bench::new().await;
    let start = AttemptStart {
        catalogue: "with code".to_owned(),
        ..model_step()
    };
    let mut owner = bench.start(start).await;
    let mut listed = catalogue();
    listed.tools.push(OfferedTool {
        name: CODE_GENERATION.to_owned(),
        parameters_json: "{}".to_owned(),
        effect: Effect::Pure.into(),
        is_allowed: true,
        ..OfferedTool::default()
    });
    owner.lacks(listed).await;
    bench.asked().await.reply("", &[(CODE_GENERATION, ADD)]);
    assert_eq!(owner.report().await.number, 1);
    bench.is_quiet().await;
    owner.ack_with(1, vec![permitted(ADD)], Vec::new());
    bench.asked().await.reply(FILES, &[]);
    assert!(!result(&mut owner).await.is_error);
}

#[tokio::test(start_paused = true)]
async fn the_task_may_list_the_paths() {
    let arguments = r#"{"task":"Add.","paths":["./a.py","b/c.py"]}"#;
    let (mut bench, mut owner) = after_permit(model_step(), arguments).await;
    let asked = bench.asked().await;
    let request = &texts(&asked)[1];
    assert!(request.starts_with("Add.\n"), "{request}");
    assert!(request.ends_with("\n- a.py\n- b/c.py"), "{request}");
    let files = json!({"files": [{"path": "./b/c.py", "text": "c\n", "note": 1}]});
    asked.reply(&format!("Here it is: {files}"), &[]);
    let files = json!({"files": [{"path": "b/c.py", "text": "c\n"}]});
    assert_eq!(result(&mut owner).await.output, format!("{files:#}"));
}

/// Answers that cannot be used for a task with the path `a.py`, and what is wrong with them.
fn faulty() -> Vec<(String, &'static str)> {
    let files = |paths: &[&str]| {
        let file = |path: &&str| json!({"path": path, "text": "x"});
        let files: Vec<Value> = paths.iter().map(file).collect();
        json!({ "files": files }).to_string()
    };
    let of = |text: &str| text.to_owned();
    vec![
        (of("I cannot."), "has no JSON object"),
        (of("{\"files\": [{\"path\": \"a.py\""), "is no JSON object"),
        (of("{\"text\": \"x\"}"), "has no list \"files\""),
        (files(&[]), "has 0 files; 1 to 64 are allowed"),
        (files(&["a.py"; 65]), "has 65 files"),
        (
            of(r#"{"files":[{"path":"a.py"}]}"#),
            "has no text in files[0].text",
        ),
        (of(r#"{"files":["a.py"]}"#), "has no text in files[0].path"),
        (files(&["a.py", "a.py"]), "has the path \"a.py\" twice"),
        (files(&["/a.py"]), "which is absolute"),
        (files(&["C:\\a.py"]), "which is absolute"),
        (files(&["b/../a.py"]), "which leads out with \"..\""),
        (files(&["a.py/"]), "which names a folder"),
        (
            files(&["a\n.py"]),
            "\"a\\n.py\", which has a control character",
        ),
        (files(&["b.py"]), "does not list; it lists: a.py"),
    ]
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_used_is_returned_to_the_model_once() {
    let arguments = r#"{"task":"Add.","paths":["a.py"]}"#;
    let good = r#"{"files":[{"path":"a.py","text":"x"}]}"#;
    for (answer, problem) in faulty() {
        for mends in [true, false] {
            let (mut bench, mut owner) = after_permit(model_step(), arguments).await;
            bench.asked().await.reply(&answer, &[]);
            let asked = bench.asked().await;
            let said = texts(&asked);
            assert_eq!((said.len(), &said[2]), (4, &answer));
            assert!(said[3].starts_with("Your answer cannot be used: it "));
            assert!(said[3].contains(problem), "{}", said[3]);
            asked.reply(if mends { good } else { &answer }, &[]);
            let result = result(&mut owner).await;
            assert_eq!(model_calls(&result), Some(2));
            assert_eq!(result.usage.expect("usage").input_tokens, 10);
            assert_eq!(result.is_error, !mends, "{}", result.output);
            if !mends {
                assert_eq!(result.reason, "ExecutionFailed");
                let begin = "ExecutionFailed: the model's answer cannot be used, because it";
                assert!(result.output.starts_with(begin), "{}", result.output);
                assert!(result.output.contains(problem), "{}", result.output);
            }
            owner.end(2).await;
            bench.is_quiet().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_cut_is_asked_for_once_more() {
    let (mut bench, mut owner) = after_permit(model_step(), ADD).await;
    let mut cut = reply(&FILES[..20], &[]);
    cut.finish = FinishReason::Length;
    bench.asked().await.answer(Ok(cut));
    let asked = bench.asked().await;
    let told = texts(&asked).pop().expect("a message");
    assert!(told.contains("cut at the limit of its length"), "{told}");
    asked.reply(FILES, &[]);
    assert!(!result(&mut owner).await.is_error);
}

/// A model may call a tool that it was not offered. A request may have no call without its result.
#[tokio::test(start_paused = true)]
async fn calls_of_an_answer_are_not_made() {
    let (mut bench, mut owner) = after_permit(model_step(), ADD).await;
    bench.asked().await.reply("", &[("look", "{}")]);
    let asked = bench.asked().await;
    let mut messages = asked.request.messages.iter();
    assert!(messages.all(|message| message.calls().next().is_none()));
    assert_eq!(asked.request.messages.len(), 3);
    asked.reply(FILES, &[]);
    assert_eq!(model_calls(&result(&mut owner).await), Some(2));
    bench.is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_model_that_does_not_answer_or_refuses_is_not_asked_again() {
    let refused = || -> Answer {
        let mut refused = reply("I cannot help.", &[]);
        refused.finish = FinishReason::Refusal;
        Ok(refused)
    };
    let no_key = || -> Answer {
        Err(ModelError::Auth {
            message: "bad key".to_owned(),
        })
    };
    for (answer, words, calls) in [
        (refused(), "the model refused to answer", 1),
        (no_key(), "bad key", 0),
    ] {
        let (mut bench, mut owner) = after_permit(model_step(), ADD).await;
        bench.asked().await.answer(answer);
        let result = result(&mut owner).await;
        assert_eq!(result.reason, "ExecutionFailed");
        assert!(result.output.contains(words), "{}", result.output);
        assert_eq!(model_calls(&result), Some(calls));
        owner.end(2).await;
        bench.is_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_busy_is_asked_again_as_for_a_reply() {
    let (mut bench, mut owner) = after_permit(model_step(), ADD).await;
    bench.asked().await.answer(Err(ModelError::RateLimit {
        message: "slow down".to_owned(),
        retry_after: None,
    }));
    bench.asked().await.reply(FILES, &[]);
    let result = result(&mut owner).await;
    assert!(!result.is_error && result.duration_ms >= 500, "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn wrong_arguments_are_refused_in_words() {
    let many: Vec<String> = (0..65).map(|at| format!("{at}.py")).collect();
    let many = json!({"task": "Add.", "paths": many}).to_string();
    for (arguments, words) in [
        ("", "the arguments are no JSON object"),
        ("[]", "the arguments are no JSON object"),
        ("{}", "task is missing"),
        (r#"{"task":" "}"#, "task is missing"),
        (r#"{"task":7}"#, "task is missing"),
        (
            r#"{"task":"a","path":"b"}"#,
            "\"path\" is no argument (allowed: task, paths)",
        ),
        (r#"{"task":"a","paths":"b"}"#, "paths is no list"),
        (
            r#"{"task":"a","paths":[1]}"#,
            "paths has an item that is no text",
        ),
        (r#"{"task":"a","paths":["../b"]}"#, "\"../b\", which leads"),
        (
            many.as_str(),
            "paths has 65 items (allowed: at most 64 relative",
        ),
    ] {
        let (mut bench, mut owner) = after_permit(model_step(), arguments).await;
        let result = result(&mut owner).await;
        assert_eq!(result.reason, "InvalidArguments", "{arguments}");
        assert!(result.output.contains(words), "{}", result.output);
        assert_eq!((result.usage, &*result.model), (None, ""));
        owner.end(2).await;
        bench.is_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_attempt_gives_the_question_up() {
    for is_gone in [false, true] {
        let (mut bench, owner) = after_permit(model_step(), ADD).await;
        let asked = bench.asked().await;
        match is_gone {
            true => drop(owner),
            false => owner.end(1).await,
        }
        asked.dropped().await;
        bench.is_quiet().await;
    }
}

/// The model's next request has room for so much, and the owner keeps the rest.
#[tokio::test(start_paused = true)]
async fn a_long_result_is_left_to_the_owner() {
    for (bytes, parts) in [(100, 0), (70_000, 1)] {
        let start = AttemptStart {
            result_bytes: 50,
            ..model_step()
        };
        let (mut bench, mut owner) = after_permit(start, ADD).await;
        let files = json!({"files": [{"path": "a", "text": "x".repeat(bytes)}]});
        bench.asked().await.reply(&files.to_string(), &[]);
        let mut text = String::new();
        for _ in 0..parts {
            let part = owner.report().await.part.expect("a part");
            assert_eq!(part.offset, text.len() as u64);
            text += &part.text;
        }
        let result = result(&mut owner).await;
        assert_eq!(result.part_bytes, text.len() as u64);
        assert_eq!(text + &result.output, format!("{files:#}"));
        owner.ack(2);
        bench.is_quiet().await;
        owner.ack_with(2, Vec::new(), vec![owners_result(call_ref(0, 0), "{ …")]);
        let asked = bench.asked().await;
        assert_eq!(asked.said()[1].text(), "{ …");
        owner.end(2).await;
        asked.dropped().await;
    }
}

fn tool_step(arguments: &str) -> AttemptStart {
    AttemptStart {
        session: "s-1".to_owned(),
        attempt: Some(attempt()),
        tool_step: Some(permitted(arguments)),
        ..AttemptStart::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_may_be_one_such_call() {
    let mut bench = Bench::new().await;
    let mut owner = bench.start(tool_step(ADD)).await;
    bench.asked().await.reply(FILES, &[]);
    let result = result(&mut owner).await;
    assert_eq!((result.is_error, model_calls(&result)), (false, Some(1)));
    owner.end(1).await;

    let unknown = AttemptStart {
        model: "other".to_owned(),
        ..tool_step(ADD)
    };
    let mut owner = bench.start(unknown).await;
    let failure = owner.report().await.failure.expect("a failure");
    assert_eq!(failure.reason, "unknown_model");
    owner.end(1).await;
    bench.is_quiet().await;
}

/// Without any key.
#[tokio::test]
async fn the_offline_model_writes_files() {
    let folder = std::env::temp_dir().join(format!("cairn-code-{}", std::process::id()));
    let tools = Link::remote(&Address::unix(folder.join("no-such-socket")));
    let mut models = ModelRegistry::new();
    models.insert("offline", Arc::new(Offline::new(Duration::ZERO)));
    let (client, _running) = executor(Config::default(), models, tools).await;
    let arguments = r#"{"task":"Add two numbers.","paths":["src/add.py"]}"#;
    let start = tool_step(arguments);
    let mut owner = within(Owner::open(&client, start)).await.expect("a slot");
    let report = owner.report().await;
    let (_, output) = outputs(&report)[0];
    let files: Value = serde_json::from_str(output).expect("JSON");
    assert_eq!(files["files"][0]["path"], "src/add.py");
    let text = files["files"][0]["text"].as_str().expect("a text");
    assert!(text.contains("Add two numbers."), "{text}");
    assert_eq!(report.results[0].provider, "offline");
    owner.end(1).await;
}
