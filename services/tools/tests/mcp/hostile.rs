//! Servers that mean harm, or do not know better: memory and time stay bounded, and errors are clear.

use crate::fixture::{Mcp, config, eventually, folder, request};
use crate::http::{Process, of};
use cairn_engine::rules::Answer;
use cairn_tools::mcp::{MOST_DESCRIPTION_BYTES, Server, ServerConfig, Setting};
use cairn_tools::{Effect, SourceState, ToolError, ToolSource as _};
use serde_json::json;
use std::time::{Duration, Instant};

/// The most memory that this process had, in MiB.
fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: f64 = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kib / 1024.0
}

#[tokio::test]
async fn ten_thousand_tools_and_endless_pages_are_cut() {
    for (modes, expected) in [("many", 1_000), ("pages", 100)] {
        let (began, before) = (Instant::now(), memory());
        let mcp = Mcp::new(modes).await;
        let listing = mcp.listing();
        println!(
            "{modes}: {:?}, {:.0} MiB more",
            began.elapsed(),
            memory() - before
        );
        assert_eq!(listing.tools.len(), expected);
        assert_eq!(
            listing.left_out,
            ["it lists more than 1000 tools or 1048576 bytes; the rest is left out"]
        );
        assert!(memory() - before < 100.0);
    }
}

#[tokio::test]
async fn a_page_of_large_schemas_is_let_go_before_the_next() {
    let before = memory();
    let mcp = Mcp::new("heavy").await;
    let listing = mcp.listing();
    println!("heavy pages: {:.0} MiB more", memory() - before);
    assert_eq!(listing.tools.len(), 0);
    assert_eq!(listing.left_out.len(), 21, "{:?}", listing.left_out);
    assert!(memory() - before < 150.0);
}

#[tokio::test]
async fn tools_that_cannot_be_used_are_left_out_with_the_reason() {
    let mcp = Mcp::new("odd").await;
    let listing = mcp.listing();
    let names: Vec<_> = listing
        .tools
        .iter()
        .map(|it| it.tool.spec().name.as_str())
        .collect();
    let expected = [
        "t__read_file",
        "t__write_file",
        "t__twice",
        "t__untyped",
        "t__long",
        "t__bomb",
        "t__patterns",
        "t__liar",
        "t__writer",
    ];
    assert_eq!(names, expected);
    for (line, words) in listing.left_out.iter().zip([
        "tool 'large' is left out: its schema of arguments has",
        "its name here would be 't__aaaa",
        "tool 'dots.and spaces' is left out",
        "a second tool 'twice' is left out",
    ]) {
        assert!(line.contains(words), "{line}");
    }
    assert_eq!(listing.left_out.len(), 4);
    let long = listing
        .tools
        .iter()
        .find(|it| it.tool.spec().name == "t__long")
        .unwrap();
    assert!(long.tool.spec().description.len() <= MOST_DESCRIPTION_BYTES + 3);
    // The built-in tools are what they were.
    std::fs::write(mcp.folder.path().join("ws/a.txt"), "inside").unwrap();
    let read = request("read_file", &json!({"path": "a.txt"}));
    let output = mcp.tools.invoker().invoke(read).await.result.unwrap();
    assert!(output.text.contains("inside"));
}

#[tokio::test]
async fn a_schema_that_costs_too_much_is_not_checked_here() {
    let (began, before) = (Instant::now(), memory());
    let mcp = Mcp::new("odd").await;
    for tool in ["bomb", "patterns"] {
        let called = mcp.call(tool, json!({})).await;
        assert_eq!(called.result.unwrap().text, "done");
    }
    println!(
        "schemas that cost too much: {:?}, {:.0} MiB more",
        began.elapsed(),
        memory() - before
    );
    assert!(memory() - before < 64.0);
}

#[tokio::test]
async fn hints_never_loosen_and_the_default_is_to_ask() {
    let folder = folder();
    let config = ServerConfig {
        effects: [("writer".to_owned(), Effect::Pure)].into(),
        ..config(&folder, "odd")
    };
    let mcp = Mcp::with(&folder, Server::of_operator(config), None);
    let listing = mcp.until(|it| it.state == SourceState::Ready).await;
    for tool in &listing.tools {
        let spec = tool.tool.spec();
        assert_eq!(
            (spec.effect, spec.default),
            (Effect::Effectful, Answer::Ask),
            "{}",
            spec.name
        );
        assert!(!spec.in_process);
    }
}

/// A declaration of the operator comes first.
#[tokio::test]
async fn hints_that_the_operator_trusts_allow_what_is_read_only() {
    for (effects, expected) in [
        (vec![], (Effect::Pure, Answer::Allow)),
        (
            vec![("liar".to_owned(), Effect::Effectful)],
            (Effect::Effectful, Answer::Ask),
        ),
    ] {
        let folder = folder();
        let config = ServerConfig {
            trust_hints: true,
            effects: effects.into_iter().collect(),
            ..config(&folder, "odd")
        };
        let mcp = Mcp::with(&folder, Server::of_operator(config), None);
        let listing = mcp.until(|it| it.state == SourceState::Ready).await;
        let specs = listing.tools.iter().map(|listed| listed.tool.spec());
        let mut found = 0;
        for spec in specs {
            let is_liar = spec.name.ends_with("__liar");
            found += usize::from(is_liar);
            let expected = match is_liar {
                true => expected,
                false => (Effect::Effectful, Answer::Ask),
            };
            assert_eq!((spec.effect, spec.default), expected, "{}", spec.name);
        }
        assert_eq!(found, 1);
    }
}

#[tokio::test]
async fn an_endless_line_ends_the_connection_and_not_the_process() {
    let mcp = Mcp::new("legacy").await;
    let (began, before) = (Instant::now(), memory());
    let error = mcp.error("endless", "").await;
    println!(
        "an endless line: {:?}, {:.0} MiB more",
        began.elapsed(),
        memory() - before
    );
    assert!(matches!(error, ToolError::Unknown(_)), "{error:?}");
    assert!(memory() - before < 64.0);
    let listing = mcp
        .until(|it| matches!(it.state, SourceState::Unreachable(_)))
        .await;
    assert!(
        format!("{:?}", listing.state).contains("more than 64 MiB"),
        "{:?}",
        listing.state
    );
    mcp.until(|it| it.state == SourceState::Ready).await;
    assert_eq!(mcp.text("echo", "hello").await, "hello");
}

#[tokio::test]
async fn requests_without_end_end_the_connection_of_a_server_that_reads_no_answers() {
    let mcp = Mcp::new("legacy").await;
    let (began, before) = (Instant::now(), memory());
    let error = mcp.error("flood", "").await;
    println!(
        "requests without end: {:?}, {:.0} MiB more",
        began.elapsed(),
        memory() - before
    );
    assert!(matches!(error, ToolError::Unknown(_)), "{error:?}");
    assert!(memory() - before < 64.0);
    let listing = mcp
        .until(|it| matches!(it.state, SourceState::Unreachable(_)))
        .await;
    let state = format!("{:?}", listing.state);
    assert!(state.contains("does not read the answers"), "{state}");
    mcp.until(|it| it.state == SourceState::Ready).await;
    assert_eq!(mcp.text("echo", "hello").await, "hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_without_end_do_not_pile_up() {
    let mcp = Mcp::new("legacy").await;
    let (began, before) = (Instant::now(), memory());
    assert_eq!(mcp.text("noise", "").await, "said");
    println!(
        "changes without end: {:?}, {:.0} MiB more",
        began.elapsed(),
        memory() - before
    );
    assert!(memory() - before < 64.0);
}

#[tokio::test]
async fn a_long_result_is_whole() {
    let mcp = Mcp::new("legacy").await;
    let text = mcp.text("huge", "10000000").await;
    assert!(text == "x".repeat(10_000_000), "{} bytes", text.len());
}

/// Also a pure one: to repeat it would bring the same result.
#[tokio::test]
async fn a_result_over_the_limit_ends_its_call_once_and_the_connection_lives() {
    for effect in [Effect::Effectful, Effect::Pure] {
        let folder = folder();
        let config = ServerConfig {
            effects: [("huge".to_owned(), effect)].into(),
            ..config(&folder, "legacy")
        };
        let mcp = Mcp::with(&folder, Server::of_operator(config), None);
        mcp.until(|it| it.state == SourceState::Ready).await;
        is_too_large(&mcp.error("huge", "20000000").await);
        assert_eq!(mcp.count("call huge"), 1);
        assert_eq!(mcp.text("echo", "hello").await, "hello");
        assert_eq!(mcp.count("start"), 1);
    }
}

#[tokio::test]
async fn a_result_over_the_limit_ends_its_call_over_http() {
    for modes in ["legacy", "legacy,sse"] {
        let folder = folder();
        let process = Process::start(&folder, modes, None);
        let mcp = Mcp::with(&folder, Server::of_operator(of(&process.1)), None);
        mcp.until(|it| it.state == SourceState::Ready).await;
        is_too_large(&mcp.error("huge", "20000000").await);
        assert_eq!(mcp.text("echo", "hello").await, "hello");
    }
}

fn is_too_large(error: &ToolError) {
    assert!(
        matches!(error, ToolError::ExecutionFailed(text)
            if text.contains("was carried out") && text.contains("more than 16 MiB")),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_program_is_killed_with_its_group_when_its_source_is_dropped() {
    let folder = folder();
    let config = config(&folder, "legacy");
    let command = config.command.clone();
    // A shell between, which does not pass on anything, and a child that outlives its output.
    let wrapped = ServerConfig {
        command: "/bin/sh".to_owned(),
        args: vec![
            "-c".to_owned(),
            format!("sleep 98765 & {command} --exact server::serve --nocapture; sleep 98765"),
        ],
        ..config
    };
    let mcp = Mcp::with(&folder, Server::of_operator(wrapped), None);
    mcp.until(|it| it.state == SourceState::Ready).await;
    let sleeping = || {
        let list = std::process::Command::new("ps")
            .args(["-eo", "pgid,args"])
            .output()
            .unwrap();
        String::from_utf8_lossy(&list.stdout)
            .lines()
            .filter(|it| it.contains("sleep 98765"))
            .count()
    };
    assert!(sleeping() > 0);
    drop(mcp);
    eventually("the group is killed", || sleeping() == 0).await;
}

#[tokio::test]
async fn a_server_that_dies_at_each_start_is_tried_ever_more_slowly() {
    let folder = folder();
    let log = folder.path().join("log");
    let dying = ServerConfig {
        command: "/bin/sh".to_owned(),
        args: vec![
            "-c".to_owned(),
            format!("echo start >> {}; exit 7", log.display()),
        ],
        env: [].into(),
        ..config(&folder, "legacy")
    };
    let began = Instant::now();
    let mcp = Mcp::with(&folder, Server::of_operator(dying), None);
    let listing = mcp
        .until(|it| matches!(it.state, SourceState::Unreachable(_)))
        .await;
    assert!(
        format!("{:?}", listing.state).contains("exit status: 7"),
        "{:?}",
        listing.state
    );
    let mut tries = mcp.source.listing();
    // Each failure is listed anew. Pauses of one and two seconds are between the first three.
    for pauses in [1, 3] {
        tries.changed().await.unwrap();
        let after = began.elapsed();
        println!("a server that dies at once: tried again within {after:?}");
        assert!(after >= Duration::from_secs(pauses), "{after:?}");
    }
    assert!(mcp.count("start") >= 3);
}

#[tokio::test]
async fn a_server_that_dies_is_listed_with_its_last_words_and_without_secrets() {
    let folder = folder();
    let dying = ServerConfig {
        command: "/bin/sh".to_owned(),
        args: vec![
            "-c".to_owned(),
            "echo starting >&2; echo \"API_TOKEN $TOKEN is not valid\" >&2; exit 1".to_owned(),
        ],
        env: [("TOKEN".to_owned(), Setting::new("env:SESAME"))].into(),
        ..config(&folder, "legacy")
    };
    let mcp = Mcp::with(&folder, Server::of_operator(dying), None);
    let listing = mcp
        .until(|it| matches!(it.state, SourceState::Unreachable(_)))
        .await;
    let state = format!("{:?}", listing.state);
    assert!(state.contains("exit status: 1"), "{state}");
    assert!(state.contains("API_TOKEN [secret] is not valid"), "{state}");
}

#[tokio::test]
async fn a_secret_in_the_reason_of_a_refusal_is_not_shown() {
    let folder = folder();
    let script = r#"while read -r line; do
        id=${line#*'"id":'}
        printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"bad key %s"}}\n' "${id%%[,\}]*}" "$TOKEN"
    done"#;
    let refusing = ServerConfig {
        command: "/bin/sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        env: [("TOKEN".to_owned(), Setting::new("env:SESAME"))].into(),
        ..config(&folder, "legacy")
    };
    let mcp = Mcp::with(&folder, Server::of_operator(refusing), None);
    let listing = mcp
        .until(|it| matches!(it.state, SourceState::Unreachable(_)))
        .await;
    let state = format!("{:?}", listing.state);
    assert!(state.contains("bad key [secret]"), "{state}");
}

#[tokio::test]
async fn a_server_that_is_stuck_is_started_again() {
    let folder = folder();
    let config = ServerConfig {
        time_limit_ms: 200,
        start_ms: 2_000,
        ..config(&folder, "legacy")
    };
    let mcp = Mcp::with(&folder, Server::of_operator(config), None);
    mcp.until(|it| it.state == SourceState::Ready).await;
    let error = mcp.error("hang", "").await;
    assert!(matches!(error, ToolError::Unknown(_)), "{error:?}");
    let listing = mcp
        .until(|it| matches!(it.state, SourceState::Unreachable(_)))
        .await;
    assert!(
        format!("{:?}", listing.state).contains("did not list its tools"),
        "{:?}",
        listing.state
    );
    mcp.until(|it| it.state == SourceState::Ready).await;
    assert_eq!(mcp.text("echo", "hello").await, "hello");
}
