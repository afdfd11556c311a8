//! Servers that others wrote. It needs `CAIRN_MCP_PACKAGES`, a folder with `py` (mcp, fastmcp), `pyservers`
//! (servers in Python) and `js` (servers in JavaScript). `deploy/test-mcp` installs them.

use crate::fixture::{Mcp, asked, folder, has_tool, trust};
use cairn_tools::mcp::{Protocol, Server, ServerConfig, Setting};
use cairn_tools::{
    Input, InputRequired, Progress, ProgressStep, SourceState, ToolError, ToolSource as _,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn packages() -> PathBuf {
    let found = std::env::vars_os().find(|(name, _)| name == "CAIRN_MCP_PACKAGES");
    let (_, folder) = found.expect("CAIRN_MCP_PACKAGES names a folder with servers");
    PathBuf::from(folder)
}

fn program(words: &[&Path]) -> ServerConfig {
    let word = |path: &&Path| path.display().to_string();
    ServerConfig {
        command: words.first().map(word).unwrap_or_default(),
        args: words[1..].iter().map(word).collect(),
        ..ServerConfig::default()
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/mcp/packages")
        .join(name)
}

/// Connects twice, prints what was found, and returns the second connection.
async fn connected(what: &str, config: ServerConfig) -> (Mcp, Arc<TempDir>) {
    let folder = folder();
    let server = Server::of_operator(config);
    for round in ["first", "again"] {
        let began = Instant::now();
        let mcp = Mcp::with(&folder, server.clone(), Some(trust(&folder)));
        let listing = mcp.until(|it| it.state != SourceState::Starting).await;
        let took = began.elapsed();
        assert_eq!(listing.state, SourceState::Ready, "{what}");
        let protocol = trust(&folder).protocol(&mcp.source.digest()).unwrap();
        let (tools, left_out) = (listing.tools.len(), &listing.left_out);
        println!("{what} {round}: {took:.0?}, {protocol:?}, {tools} tools, left out {left_out:?}");
        assert_eq!(mcp.disabled().len(), 0, "the same tools as before");
        if round == "again" {
            return (mcp, folder);
        }
        mcp.source.close().await;
    }
    unreachable!()
}

async fn show(mcp: &Mcp, tool: &str, arguments: Value) -> String {
    let began = Instant::now();
    let outcome = mcp.call(tool, arguments).await;
    let text = match outcome.result {
        Ok(output) => format!("{} [{} media]", output.text, output.media.len()),
        Err(error) => error.to_text(),
    };
    let brief: String = text.chars().take(160).collect();
    println!(
        "  {tool}: {:.0?}, {}",
        began.elapsed(),
        brief.escape_debug()
    );
    text
}

/// Published servers: name, program, arguments, and one of its tools. `{}` stands for a repository.
const PUBLISHED: [(&str, &str, &[&str], &str); 9] = [
    (
        "filesystem",
        "js/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js",
        &["{}"],
        "read_text_file",
    ),
    (
        "everything",
        "js/node_modules/@modelcontextprotocol/server-everything/dist/index.js",
        &[],
        "echo",
    ),
    (
        "memory",
        "js/node_modules/@modelcontextprotocol/server-memory/dist/index.js",
        &[],
        "create_entities",
    ),
    (
        "sequential-thinking",
        "js/node_modules/@modelcontextprotocol/server-sequential-thinking/dist/index.js",
        &[],
        "sequentialthinking",
    ),
    (
        "time",
        "pyservers/bin/mcp-server-time",
        &[],
        "get_current_time",
    ),
    (
        "git",
        "pyservers/bin/mcp-server-git",
        &["--repository", "{}"],
        "git_status",
    ),
    ("fetch", "pyservers/bin/mcp-server-fetch", &[], "fetch"),
    (
        "notion",
        "js/node_modules/@notionhq/notion-mcp-server/bin/cli.mjs",
        &[],
        "API-post-search",
    ),
    (
        "playwright",
        "js/node_modules/@playwright/mcp/cli.js",
        &["--headless"],
        "browser_navigate",
    ),
];

/// All of their tools can be called.
#[tokio::test]
#[ignore = "deploy/test-mcp installs what it needs, and runs it"]
async fn published_servers_list_their_tools() {
    let packages = packages();
    let repository = folder();
    let made = Command::new("git")
        .args(["init", "--quiet"])
        .current_dir(repository.path())
        .status();
    assert!(made.unwrap().success());
    let place = repository.path().canonicalize().unwrap();
    for (name, path, arguments, tool) in PUBLISHED {
        let path = packages.join(path);
        let is_script = path.extension().is_some();
        let node = is_script.then_some(Path::new("/usr/bin/node"));
        let words: Vec<&Path> = node.into_iter().chain([path.as_path()]).collect();
        let mut config = program(&words);
        let place = place.display().to_string();
        let arguments = arguments.iter().map(|it| it.replace("{}", &place));
        config.args.extend(arguments);
        let memory = format!("{place}/memory.json");
        for (variable, value) in [("NOTION_TOKEN", "ntn_none"), ("MEMORY_FILE_PATH", &*memory)] {
            config.env.insert(variable.to_owned(), Setting::new(value));
        }
        let (mcp, _folder) = connected(name, config).await;
        let listing = mcp.listing();
        assert!(listing.left_out.is_empty(), "{name}: {listing:?}");
        assert!(
            has_tool(&mcp.tools, &format!("t__{tool}")),
            "{name}: {listing:?}"
        );
        for listed in &listing.tools {
            let tool = &listed.tool.spec().name;
            assert!(has_tool(&mcp.tools, tool), "{name}: {tool}");
        }
        mcp.source.close().await;
    }
}

#[tokio::test]
#[ignore = "deploy/test-mcp installs what it needs, and runs it"]
async fn the_server_of_everything() {
    let packages = packages();
    let node = Path::new("/usr/bin/node");
    let modules = packages.join("js/node_modules/@modelcontextprotocol");
    let everything = modules.join("server-everything/dist/index.js");
    let (mcp, _folder) = connected("server-everything", program(&[node, &everything])).await;
    for tool in mcp.listing().tools.iter() {
        let spec = tool.tool.spec();
        println!(
            "  {} {:?} {:?}",
            spec.name,
            spec.effect,
            spec.hints.as_ref().map(ToString::to_string)
        );
    }
    assert!(
        show(&mcp, "echo", json!({"message": "hello"}))
            .await
            .contains("hello")
    );
    show(
        &mcp,
        "get-structured-content",
        json!({"location": "Chicago"}),
    )
    .await;
    show(&mcp, "get-tiny-image", json!({})).await;
    show(&mcp, "get-resource-links", json!({"count": 2})).await;
    show(&mcp, "trigger-elicitation-request", json!({})).await;
    let (progress, steps) = Progress::followed();
    let mut long = asked(
        "trigger-long-running-operation",
        &json!({"duration": 1, "steps": 4}),
    );
    long.progress = progress;
    let outcome = mcp.tools.invoker().invoke(long).await;
    let steps: Vec<ProgressStep> = std::iter::from_fn(|| steps.take()).collect();
    println!(
        "  long: {} steps, {:?}",
        steps.len(),
        outcome.result.map(|it| it.text)
    );
    assert!(!steps.is_empty());
}

#[tokio::test]
#[ignore = "deploy/test-mcp installs what it needs, and runs it"]
async fn the_server_of_files() {
    let packages = packages();
    let node = Path::new("/usr/bin/node");
    let modules = packages.join("js/node_modules/@modelcontextprotocol");
    let files = folder();
    std::fs::write(files.path().join("a.txt"), "inside").unwrap();
    let filesystem = modules.join("server-filesystem/dist/index.js");
    let root = files.path().canonicalize().unwrap();
    let (mcp, _folder) = connected("server-filesystem", program(&[node, &filesystem, &root])).await;
    for tool in mcp.listing().tools.iter() {
        let spec = tool.tool.spec();
        let names: Vec<_> = spec
            .matchers
            .iter()
            .map(|it| format!("{}:{:?}", it.argument, it.kind))
            .collect();
        println!("  {} {}", spec.name, names.join(" "));
    }
    let read = show(&mcp, "read_text_file", json!({"path": root.join("a.txt")})).await;
    assert!(read.contains("inside"), "{read}");
    show(&mcp, "read_text_file", json!({"path": "/etc/passwd"})).await;
}

#[tokio::test]
#[ignore = "deploy/test-mcp installs what it needs, and runs it"]
async fn the_time_server() {
    let packages = packages();
    let time = packages.join("pyservers/bin/mcp-server-time");
    let (mcp, _folder) = connected("mcp-server-time", program(&[&time])).await;
    let text = show(
        &mcp,
        "get_current_time",
        json!({"timezone": "Europe/Berlin"}),
    )
    .await;
    assert!(text.contains("Berlin"), "{text}");
    show(
        &mcp,
        "get_current_time",
        json!({"timezone": "Nowhere/Else"}),
    )
    .await;
}

/// A question that another process of ours answers.
async fn question(mcp: &Mcp, other: &Mcp) {
    let arguments = json!({"env": "prod"});
    let outcome = mcp
        .tools
        .invoker()
        .invoke(asked("deploy", &arguments))
        .await;
    let Err(ToolError::InputRequired(InputRequired { requests, state })) = outcome.result else {
        panic!("{outcome:?}");
    };
    println!(
        "  deploy asks {requests}, state of {:?} bytes",
        state.as_ref().map(String::len)
    );
    let mut answered = asked("deploy", &arguments);
    answered.input = Some(Input {
        responses: json!({"confirm": {"action": "accept", "content": {"confirm": true}}})
            .to_string(),
        state,
    });
    let output = other.tools.invoker().invoke(answered).await.result.unwrap();
    println!("  deploy answered: {}", output.text);
    assert!(output.text.contains("deployed prod"), "{}", output.text);
}

#[tokio::test]
#[ignore = "deploy/test-mcp installs what it needs, and runs it"]
async fn the_python_sdk() {
    let packages = packages();
    let python = packages.join("py/bin/python");
    let (mcp, _folder) =
        connected("mcp 2 over stdio", program(&[&python, &script("sdk.py")])).await;
    let (other, _other) =
        connected("mcp 2 over stdio", program(&[&python, &script("sdk.py")])).await;
    show(&mcp, "echo", json!({"message": "hello"})).await;
    let meta = show(&mcp, "meta", json!({})).await;
    assert!(meta.contains("dev.cairn/idempotency-key"), "{meta}");
    question(&mcp, &mcp).await;
    // Its state is sealed by a key of its own process: after a restart nothing can open it.
    let mut answered = asked("deploy", &json!({"env": "prod"}));
    answered.input = Some(Input {
        responses: json!({"confirm": {"action": "accept", "content": {"confirm": true}}})
            .to_string(),
        state: Some("sealed by another process".to_owned()),
    });
    let outcome = other.tools.invoker().invoke(answered).await;
    println!(
        "  deploy with a state of another process: {:?}",
        outcome.result
    );
    drop(other);
    let _server = Served::start(&python, "sdk.py", 11_411).await;
    let url = ServerConfig {
        url: "http://127.0.0.1:11411/mcp".to_owned(),
        ..ServerConfig::default()
    };
    let (mcp, _folder) = connected("mcp 2 over HTTP", url.clone()).await;
    let (other, _other) = connected("mcp 2 over HTTP", url).await;
    show(&mcp, "echo", json!({"message": "hello"})).await;
    question(&mcp, &other).await;
}

#[tokio::test]
#[ignore = "deploy/test-mcp installs what it needs, and runs it"]
async fn fastmcp() {
    let packages = packages();
    let python = packages.join("py/bin/python");
    for protocol in [Protocol::Auto, Protocol::Legacy] {
        let config = ServerConfig {
            protocol,
            ..program(&[&python, &script("fast.py")])
        };
        let (mcp, _folder) = connected(&format!("fastmcp {protocol:?}"), config).await;
        show(&mcp, "echo", json!({"message": "hello"})).await;
        // Asked within the call, which holds it open.
        let asked_within = show(&mcp, "ask", json!({})).await;
        let expected = match protocol {
            Protocol::Legacy => "Declined",
            Protocol::Auto | Protocol::V20260728 => "unavailable on 2026-07-28",
        };
        assert!(asked_within.contains(expected), "{asked_within}");
        let (progress, steps) = Progress::followed();
        let mut slow = asked("slow", &json!({"steps": 3}));
        slow.progress = progress;
        let outcome = mcp.tools.invoker().invoke(slow).await;
        let steps = std::iter::from_fn(|| steps.take()).count();
        println!(
            "  slow: {steps} steps, {:?}",
            outcome.result.map(|it| it.text)
        );
        assert_eq!(steps, 3);
    }
    let mut server = Served::start(&python, "fast.py", 11_412).await;
    let url = ServerConfig {
        url: "http://127.0.0.1:11412/mcp".to_owned(),
        ..ServerConfig::default()
    };
    let (mcp, _folder) = connected("fastmcp over HTTP", url).await;
    show(&mcp, "echo", json!({"message": "hello"})).await;
    // The server dies in the middle of a call.
    let (progress, mut steps) = Progress::followed();
    let mut call = asked("slow", &json!({"steps": 1_000}));
    call.progress = progress;
    let invoker = mcp.tools.invoker().clone();
    let task = tokio::spawn(async move { invoker.invoke(call).await });
    steps.next().await;
    server.kill();
    let began = Instant::now();
    let outcome = task.await.unwrap();
    println!(
        "  killed in a call: {:.0?} later {:?}",
        began.elapsed(),
        outcome.result
    );
    assert!(matches!(outcome.result, Err(ToolError::Unknown(_))));
}

/// A server over HTTP. Its port is below those that systems give to connections.
struct Served(Child);

impl Served {
    async fn start(python: &Path, name: &str, port: u16) -> Self {
        let mut command = Command::new(python);
        command
            .arg(script(name))
            .arg(port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut served = Self(command.spawn().unwrap());
        for _ in 0..200 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return served;
            }
            let ended = served.0.try_wait().unwrap();
            assert!(ended.is_none(), "{name} at port {port} ended: {ended:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{name} does not listen at port {port}");
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}
