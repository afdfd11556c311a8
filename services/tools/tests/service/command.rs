//! Programs as tools. They are small shell scripts, called as `/bin/sh` with arguments of their
//! own: the service itself never starts a shell.

use crate::support::{World, request};
use cairn_tools::{CommandConfig, Confine, Effect, ToolError, Tools};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn script(name: &str, text: &str) -> CommandConfig {
    CommandConfig {
        name: name.to_owned(),
        description: "test".to_owned(),
        argv: ["/bin/sh", "-c", text].map(str::to_owned).to_vec(),
        effect: Effect::Effectful,
        parameters: json!({"type": "object"}),
        time_limit_ms: 20_000,
        output_bytes: 4096,
        env: Vec::new(),
        confine: Confine::None,
    }
}

fn world(commands: Vec<CommandConfig>) -> World {
    World::with(|config, deps| {
        config.commands = commands;
        for (name, value) in [
            ("PATH", "/usr/bin:/bin"),
            ("HOME", "/root"),
            ("LEAK", "secret"),
        ] {
            deps.programs
                .environment
                .insert(name.to_owned(), value.to_owned());
        }
    })
}

#[tokio::test]
async fn arguments_go_in_and_output_comes_out() {
    let world = world(vec![script("echo", "cat; pwd; echo noise >&2")]);
    let arguments = json!({"word": "ä \"$(pwd)\" ;\n", "list": [1, 2]});
    let text = world.text("echo", arguments.clone()).await;
    let workspace = world.path("").canonicalize().unwrap();
    assert_eq!(text, format!("{arguments}{}\n", workspace.display()));
}

#[tokio::test]
async fn a_program_gets_numbers_with_all_their_digits() {
    let world = world(vec![script("echo", "cat")]);
    let arguments = r#"{"id":1000000000000000000001,"rate":0.10000000000000000000000000000001}"#;
    let call = request("echo", arguments);
    let output = world.tools.invoker().invoke(call).await.result;
    assert_eq!(output.unwrap().text, arguments);
}

#[tokio::test]
async fn the_environment_holds_only_what_is_listed() {
    let mut listed = script(
        "listed",
        "env | grep -v '^_=\\|^PWD=\\|^SHLVL=\\|^OLDPWD=' | sort",
    );
    listed.env = vec!["HOME".to_owned(), "ABSENT".to_owned()];
    let plain = CommandConfig {
        name: "plain".to_owned(),
        env: Vec::new(),
        ..listed.clone()
    };
    let world = world(vec![listed, plain]);
    assert_eq!(
        world.text("plain", json!({})).await,
        "CAIRN_CALL_KEY=0123456789abcdef\nPATH=/usr/bin:/bin\n"
    );
    assert_eq!(
        world.text("listed", json!({})).await,
        "CAIRN_CALL_KEY=0123456789abcdef\nHOME=/root\nPATH=/usr/bin:/bin\n"
    );
}

#[tokio::test]
async fn the_schema_stands_before_the_program() {
    let mut command = script("strict", "touch ran");
    command.parameters = json!({
        "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]
    });
    let world = world(vec![command]);
    let error = world.error("strict", json!({"n": "1"})).await;
    assert_eq!(error.reason(), "InvalidArguments");
    assert!(!world.path("ran").exists());
    world.text("strict", json!({"n": 1})).await;
    assert!(world.path("ran").exists());
}

#[tokio::test]
async fn a_failure_has_status_output_and_the_end_of_standard_error() {
    let long = "i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done; exit 7";
    let world = world(vec![
        script("fails", "echo out; echo what went wrong >&2; exit 3"),
        script("silent", "exit 1"),
        script("killed", "kill -9 $$"),
        script(
            "finds",
            "echo 'a.rs:1: warning'; echo 'b.rs:2: error'; exit 1",
        ),
        script("dies", "echo half; kill -9 $$"),
        script("much", "head -c 9000 /dev/zero | tr '\\0' x; exit 2"),
        script("long", long),
        CommandConfig {
            argv: vec!["/nowhere/program".to_owned()],
            ..script("absent", "")
        },
    ]);
    for (name, expected) in [
        (
            "fails",
            "tool 'fails' failed with exit status 3\nits standard output:\nout\n\
             the end of its standard error:\nwhat went wrong\nexit status 3",
        ),
        (
            "finds",
            "tool 'finds' failed with exit status 1\nits standard output:\n\
             a.rs:1: warning\nb.rs:2: error\nexit status 1",
        ),
        (
            "dies",
            "tool 'dies' failed with signal 9\nits standard output:\nhalf\nsignal 9",
        ),
        ("silent", "tool 'silent' failed with exit status 1"),
        ("killed", "tool 'killed' failed with signal 9"),
    ] {
        let error = world.error(name, json!({})).await;
        assert_eq!(error, ToolError::ExecutionFailed(expected.to_owned()));
    }
    let error = world.error("much", json!({})).await;
    let end = "xx\n[cut: the result is longer than 4096 bytes]\nexit status 2";
    assert!(error.message().ends_with(end), "{error}");
    let error = world.error("absent", json!({})).await;
    assert!(
        error
            .message()
            .contains("could not be started: No such file"),
        "{error}"
    );
    let error = world.error("long", json!({})).await;
    assert!(
        error.message().ends_with("line 1999\nexit status 7"),
        "{error}"
    );
    assert!(error.message().len() < 2200, "{}", error.message().len());
}

#[tokio::test]
async fn output_is_bounded_and_never_blocks_the_program() {
    let world = world(vec![
        script(
            "much",
            "head -c 3000000 /dev/zero | tr '\\0' x; head -c 300000 /dev/zero >&2",
        ),
        script(
            "wide",
            "i=0; while [ $i -lt 2000 ]; do printf 'ä€🦀'; i=$((i+1)); done",
        ),
        script("deaf", "exec 0<&-; echo done"),
    ]);
    let text = world.text("much", json!({})).await;
    assert!(text.len() <= 4096);
    assert!(
        text.ends_with("x\n[cut: the result is longer than 4096 bytes]"),
        "{text}"
    );
    let text = world.text("wide", json!({})).await;
    assert!(text.len() <= 4096);
    assert!(!text.contains('\u{fffd}'), "{text}");
    assert!(text.contains("[cut:"), "{text}");
    // Arguments that nobody reads, larger than a pipe holds.
    let arguments = json!({"text": "x".repeat(200_000)});
    assert_eq!(world.text("deaf", arguments).await, "done\n");
}

/// Waits until nobody has `file` open any more: it is the lock of every process of a script.
async fn wait_until_free(file: &Path) {
    let file = fs::File::open(file).unwrap();
    let lock = tokio::task::spawn_blocking(move || file.lock());
    let waited = tokio::time::timeout(Duration::from_secs(10), lock).await;
    waited
        .expect("a process of the script is still alive")
        .unwrap()
        .unwrap();
}

/// A script whose children, and theirs, hold a lock on `held` as long as they live.
fn family(name: &str, effect: Effect, time_limit_ms: u64) -> CommandConfig {
    let text = "exec 9>held; flock -s 9; \
                (sleep 1000 & sleep 1000) & \
                (trap '' TERM HUP INT; sleep 1000; sleep 1000) & \
                echo x > started; wait";
    CommandConfig {
        effect,
        time_limit_ms,
        ..script(name, text)
    }
}

async fn wait_for(path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !path.exists() {
        assert!(
            Instant::now() < deadline,
            "{} does not appear",
            path.display()
        );
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_timeout_kills_the_program_and_its_children() {
    let world = world(vec![family("slow", Effect::Effectful, 300)]);
    let outcome = world.call("slow", json!({})).await;
    let Err(ToolError::Timeout(message)) = outcome.result else {
        panic!("{outcome:?}");
    };
    assert!(message.contains("limit of 300 ms"), "{message}");
    assert!(message.contains("stays done"), "{message}");
    assert!(world.path("started").exists());
    wait_until_free(&world.path("held")).await;
}

#[tokio::test]
async fn what_a_program_leaves_running_ends_with_it() {
    let text = "exec 9>held; flock -s 9; sleep 1000 & echo done";
    let world = world(vec![script("leaves", text)]);
    // Were the child waited for, this would be the time limit's error.
    assert_eq!(world.text("leaves", json!({})).await, "done\n");
    wait_until_free(&world.path("held")).await;
}

#[tokio::test]
async fn a_child_that_left_the_group_does_not_hold_up_the_result() {
    // The child ends with the folder, and has what it writes to open until then.
    let text = "exec 9>held; flock -s 9; \
                setsid sh -c 'echo x > left; while [ -e held ]; do sleep 0.05; done' & \
                until [ -e left ]; do sleep 0.01; done; echo done";
    let world = world(vec![script("escapes", text)]);
    assert_eq!(world.text("escapes", json!({})).await, "done\n");
    // The result came while the child was there.
    let held = fs::File::open(world.path("held")).unwrap();
    let lock = held.try_lock();
    assert!(
        matches!(lock, Err(fs::TryLockError::WouldBlock)),
        "{lock:?}"
    );
}

fn begin(tools: &Arc<Tools>, name: &str) -> tokio::task::JoinHandle<()> {
    let tools = tools.clone();
    let name = name.to_owned();
    tokio::spawn(async move {
        let outcome = tools.invoker().invoke(request(&name, "{}")).await;
        panic!("it was to be dropped: {outcome:?}");
    })
}

#[tokio::test]
async fn a_pure_program_is_killed_when_its_caller_goes() {
    let World { folder, tools } = world(vec![family("pure", Effect::Pure, 20_000)]);
    let caller = begin(&Arc::new(tools), "pure");
    wait_for(&folder.path().join("ws/started")).await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    wait_until_free(&folder.path().join("ws/held")).await;
}

#[tokio::test]
async fn an_effectful_program_is_finished_when_its_caller_goes() {
    let text = "echo x > started; cat gate > finished";
    let World { folder, tools } = world(vec![script("deploy", text)]);
    let workspace = folder.path().join("ws");
    let gate = workspace.join("gate");
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &gate, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let tools = Arc::new(tools);
    let caller = begin(&tools, "deploy");
    wait_for(&workspace.join("started")).await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    tokio::task::spawn_blocking(move || fs::write(gate, "the effect"))
        .await
        .unwrap()
        .unwrap();
    tools.drain().await;
    assert_eq!(
        fs::read_to_string(workspace.join("finished")).unwrap(),
        "the effect"
    );
}

#[tokio::test]
async fn programs_are_not_in_process() {
    let world = world(vec![script("program", "true")]);
    let in_process: Vec<(String, bool)> = world
        .listed()
        .into_iter()
        .map(|spec| (spec.name, spec.in_process))
        .collect();
    let expected = [
        ("edit_file", true),
        ("list_files", true),
        ("program", false),
        ("read_file", true),
        ("search_files", true),
        ("write_file", true),
    ];
    assert_eq!(in_process, expected.map(|(name, is)| (name.to_owned(), is)));
}
