//! A server that does not notice the end of its input is killed with the process that started it, or with its
//! source. So are its children, also in a session of their own. Those that end before it leave nothing behind.
//!
//! Its `main` is its own, as supervising processes are this program once more.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "clippy knows tests by their attribute"
)]

use cairn_supervise::{Supervisor, supervise};
use cairn_tools::mcp::{McpDeps, McpSource, Server, ServerConfig};
use cairn_tools::{Allowances, Config, Confine, Confinement, Programs};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, ExitCode};
use std::time::Duration;

const NAME: &str = "a_deaf_server_is_killed_with_the_service";

fn main() -> ExitCode {
    if let Some(code) = supervise(std::env::args_os()) {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|it| it == word);
    match arguments.first().map(String::as_str) {
        Some("host") => host(Path::new(&arguments[1]), Confine::None),
        Some("confined-host") => host(Path::new(&arguments[1]), Confine::Workspace),
        // As test runners ask.
        _ if has("--list") && has("--ignored") => {}
        _ if has("--list") => println!("{NAME}: test"),
        _ => test(),
    }
    ExitCode::SUCCESS
}

/// Starts a server that reads nothing, and waits.
#[tokio::main(flavor = "current_thread")]
async fn host(folder: &Path, confine: Confine) {
    let script = format!(
        "(sh -c 'echo $$ > {0}/new; mv {0}/new {0}/over' &); sleep 1000 & a=$!; setsid sleep 1000 & \
         echo $$ $a $! > {0}/newer; mv {0}/newer {0}/ids; wait",
        folder.display()
    );
    let config = ServerConfig {
        command: "/bin/sh".to_owned(),
        args: vec!["-c".to_owned(), script],
        confine,
        ..ServerConfig::default()
    };
    let deps = McpDeps {
        workspace: folder.to_owned(),
        programs: Programs {
            supervisor: Some(Supervisor::this_program().unwrap()),
            confinement: Some(Confinement::of(
                &Config::default(),
                folder,
                &BTreeMap::new(),
            )),
            ..Programs::default()
        },
        allowances: Allowances::default(),
    };
    let source = McpSource::start("deaf", Server::of_operator(config), &deps);
    for _ in 0..3_000 {
        if folder.join("drop").exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(source);
    tokio::time::sleep(Duration::from_secs(60)).await;
}

fn test() {
    let confined = cfg!(target_os = "linux").then_some("confined-host");
    for kind in ["host"].into_iter().chain(confined) {
        ends_with(kind, |host, _| {
            host.kill().unwrap();
            host.wait().unwrap();
        });
        ends_with(kind, |_, folder| {
            std::fs::write(folder.join("drop"), "").unwrap()
        });
    }
}

/// `kind` says whether the server is confined.
fn ends_with(kind: &str, end: impl Fn(&mut Child, &Path)) {
    let folder = tempfile::TempDir::new().unwrap();
    let this = std::env::current_exe().unwrap();
    let mut host = Command::new(this)
        .arg(kind)
        .arg(folder.path())
        .spawn()
        .unwrap();
    let ids = folder.path().join("ids");
    until("the server is started", || ids.exists());
    let ids = std::fs::read_to_string(ids).unwrap();
    // One that nobody has waited for yet has ended.
    let lives = |id: &str| !matches!(state(id).chars().next(), None | Some('Z'));
    assert!(ids.split_whitespace().all(lives), "{ids}");
    // A server may start and leave any number of them, and each would keep its number.
    until("a child whose parent has ended is waited for", || {
        let over = std::fs::read_to_string(folder.path().join("over"));
        over.is_ok_and(|id| state(id.trim()).is_empty())
    });
    end(&mut host, folder.path());
    until("the server is killed", || {
        !ids.split_whitespace().any(lives)
    });
    // It has ended in one of the cases.
    _ = host.kill();
    host.wait().unwrap();
}

/// As `ps` shows it; empty for a process that is not there.
fn state(id: &str) -> String {
    let shown = Command::new("ps")
        .args(["-o", "stat=", "-p", id])
        .output()
        .unwrap();
    String::from_utf8_lossy(&shown.stdout).trim().to_owned()
}

fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("it never happened: {what}");
}
