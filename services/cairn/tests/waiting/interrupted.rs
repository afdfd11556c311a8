//! Commands over services that somebody interrupts, or whose services end: what becomes of the run is
//! said as it is.

use crate::support::CAIRN;
use cairn_testkit::site::Running;
use cairn_testkit::{Output, Site, eventually};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};

const GATE: &str = r#"
[[tools.commands]]
name = "gate"
description = "Waits until it is opened."
argv = ["sh", "-c", "echo x >begun; until [ -e open ]; do sleep 0.05; done"]
effect = "pure"
time_limit_ms = 60000
parameters = { type = "object" }
"#;

/// A run that waits at its gate, followed by the command that began it.
struct World {
    site: Site,
    serving: Running,
    address: String,
    run: Child,
}

impl World {
    fn new() -> Self {
        Self::shown_on(Stdio::piped(), Stdio::piped())
    }

    fn shown_on(out: Stdio, err: Stdio) -> Self {
        let site = Site::new(CAIRN);
        site.append("cairn.toml", GATE);
        site.write(
            "plan.json",
            r#"{"steps": [{"tool": "gate", "arguments": {}}]}"#,
        );
        let serving = site.start(&["serve", "--listen", "127.0.0.1:0", "--json"], &[]);
        let reported: serde_json::Value =
            serde_json::from_str(&serving.first_line).expect("a line of JSON");
        let address = reported["listen"].as_str().expect("an address").to_owned();
        let run = ["run", "--session", "work", "--plan", "plan.json"];
        let run = site
            .command(&[&run[..], &["--server", &address]].concat())
            .envs([("TERM", "xterm"), ("NO_COLOR", "1")])
            .stdout(out)
            .stderr(err)
            .spawn()
            .expect("the program can be started");
        eventually("the call begins", || site.read("begun"));
        Self {
            site,
            serving,
            address,
            run,
        }
    }

    /// How the command that followed the run ended, and what it said.
    fn end(run: Child) -> (Option<i32>, String) {
        let ended = run.wait_with_output().expect("its end");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        (ended.status.code(), said)
    }

    fn cairn(site: &Site, address: &str, words: &[&str]) -> Output {
        site.run(&[words, &["--server", address]].concat())
    }
}

#[test]
fn a_run_that_others_carry_out_continues_after_an_interrupt() {
    let world = World::new();
    let interrupt = ["-INT", &world.run.id().to_string()];
    let sent = Command::new("kill").args(interrupt).status();
    assert!(sent.expect("kill can be started").success());
    let (code, said) = World::end(world.run);
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("the run continues"), "{said}");
    assert!(said.contains("watch work"), "{said}");
    assert!(said.contains("cancel work"), "{said}");
    world.site.write("open", "");
    let watched = World::cairn(&world.site, &world.address, &["watch", "work"]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
}

#[test]
fn who_loses_sight_of_a_run_is_reported_how_to_find_it_again() {
    let mut world = World::new();
    world.serving.kill();
    let (code, said) = World::end(world.run);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("session work is kept"), "{said}");
    assert!(said.contains("watch work"), "{said}");
}

/// What stands on a terminal is not written over by what moves there.
#[test]
fn a_warning_stands_above_the_live_plan() {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).expect("the terminal is ours");
    unlockpt(&terminal).expect("and can be opened");
    let name = ptsname(&terminal, Vec::new()).expect("its name");
    let screen = || {
        let name = name.to_str().expect("a path");
        let file = File::options().read(true).write(true).open(name);
        Stdio::from(file.expect("the terminal can be opened"))
    };
    let mut world = World::shown_on(screen(), screen());
    let (mut shown, mut terminal) = (Vec::new(), File::from(terminal));
    let mut shown_until = |is_shown: fn(&str) -> bool| loop {
        let text = String::from_utf8_lossy(&shown).into_owned();
        if is_shown(&text) {
            return text;
        }
        let mut part = [0; 4096];
        let count = terminal.read(&mut part).expect("more is shown");
        shown.extend_from_slice(&part[..count]);
    };
    shown_until(|text| text.contains("→ 1 gate"));
    world.serving.kill();
    let text = shown_until(|text| {
        let (_, below) = text.split_once("waiting for").unwrap_or_default();
        below.contains("→ 1 gate")
    });
    let (before, after) = text.split_once("waiting for").expect("it was seen");
    // Up over the plan's one line, which is cleared.
    let line = before.lines().last().unwrap_or_default();
    assert!(line.starts_with("\u{1b}[1A\r\u{1b}[J2"), "{text:?}");
    let (_, below) = after.split_once("\r\n").expect("the line's end");
    assert!(below.trim_start().starts_with("→ 1 gate"), "{text:?}");
    world.run.kill().expect("it runs");
    world.run.wait().expect("its end");
}

#[test]
fn a_store_that_is_named_is_meant_whatever_services_are_configured() {
    let site = Site::new(CAIRN);
    let services = [("CAIRN_SERVER", "http://127.0.0.1:1")];
    site.write(
        "plan.json",
        r#"{"steps": [{"tool": "list_files", "arguments": {}}]}"#,
    );
    let run = ["run", "--plan", "plan.json", "--store", "mine.db"];
    let ran = site.run_with(&run, &services);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(site.path().join("mine.db").exists());
}
