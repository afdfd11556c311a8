//! The five services as five processes: the same journal as in one, and every one of them may be
//! killed.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot set up its world is over"
)]

mod support;

#[path = "kill_serve/watcher.rs"]
mod watcher;

use cairn_proto::event as wire;
use cairn_rpc::Link;
use cairn_testkit::cluster::SERVICES;
use cairn_testkit::{Cluster, Journal, Site};
use std::sync::Mutex;
use support::{Client, chain};
use watcher::Watcher;

const CAIRN: &str = env!("CARGO_BIN_EXE_cairn");
const GOAL: &str = "Which files under docs mention Redis, and what do they say about it?";

fn step(tool: &str, arguments: String) -> wire::PlanStep {
    wire::PlanStep {
        title: tool.to_owned(),
        tool: Some(wire::ToolInvocation {
            name: tool.to_owned(),
            arguments_json: arguments,
        }),
        ..wire::PlanStep::default()
    }
}

/// Tool steps of every effect, and one for the model after them.
fn plan(rounds: u32) -> wire::StartRun {
    let round = |number| {
        [
            step("list_files", r#"{"path":"docs"}"#.to_owned()),
            step("record", format!(r#"{{"what":"{number}"}}"#)),
            step(
                "write_file",
                format!(r#"{{"content":"note","path":"cairn-out/note-{number}.md"}}"#),
            ),
        ]
    };
    chain((0..rounds).flat_map(round).collect())
}

fn client(cluster: &Cluster<'_>) -> Client {
    Client::new(Link::remote(&cluster.url().parse().expect("an address")))
}

/// The journal of a command that was run with the same request in one process or in five.
fn journal(site: &Site, server: &[&str], arguments: &[&str]) -> Journal {
    let run = [
        "run",
        "--json",
        "--request-id",
        "r-1",
        "--model",
        "rehearsal",
    ];
    let output = site.run(&[&run, server, arguments].concat());
    assert_eq!(output.code, Some(0), "{output:?}");
    let session = site.run(&[&["sessions", "--json"], server].concat()).out;
    let session: serde_json::Value = serde_json::from_str(session.trim()).expect("one session");
    let id = session["id"].as_str().expect("an id");
    let exported = site.run(&[&["export", id], server].concat());
    assert_eq!(exported.code, Some(0), "{exported:?}");
    Journal::read(&exported.out)
}

#[test]
fn five_processes_write_the_journal_of_one() {
    let draft = r#"{"steps": [
        {"tool": "list_files", "arguments": {"path": "docs"}},
        {"title": "Search for \"Redis\"", "description": "Search for \"Redis\" under docs."},
        {"tool": "record", "arguments": {"what": "one"}}]}"#;
    for arguments in [&[GOAL][..], &["--plan", "plan.json"]] {
        let (one, five) = (Site::new(CAIRN), Site::new(CAIRN));
        one.write("plan.json", draft);
        five.write("plan.json", draft);
        let reference = journal(&one, &[], arguments);
        let cluster = Cluster::start(&five, &[]);
        let mine = journal(&five, &["--server", &cluster.url()], arguments);
        mine.check();
        mine.check_like(&reference);
        println!("{} events alike: {arguments:?}", mine.0.len());
        assert_eq!(
            one.read("cairn-out/report.md"),
            five.read("cairn-out/report.md")
        );
    }
}

/// One process after the other is killed and started again while a run goes on.
#[tokio::test(flavor = "multi_thread")]
async fn each_process_may_be_killed_while_a_run_goes_on() {
    const ROUNDS: u32 = 20;
    let quiet = Site::new(CAIRN);
    let mut undisturbed = Watcher::of(plan(ROUNDS));
    let cluster = Cluster::start(&quiet, &[]);
    let nothing = Journal(Vec::new());
    undisturbed
        .go_on_with(client(&cluster), &quiet, &nothing)
        .await
        .expect("a run");
    let exported = quiet.run(&["export", &undisturbed.session, "--server", &cluster.url()]);
    let reference = Journal::read(&exported.out);

    let site = Site::new(CAIRN);
    let cluster = Mutex::new(Cluster::start(&site, &[]));
    let mut watcher = Watcher::of(plan(ROUNDS));
    let (mut breaks, mut kills) = (0, 0);
    while !watcher.has_ended {
        let seen = watcher.events.len();
        let victim = SERVICES[kills % SERVICES.len()];
        let client = client(&cluster.lock().unwrap());
        // A little further each time; what has been seen by then is kept.
        let further = watcher.until(client, &site, &reference, seen + 7);
        breaks += usize::from(further.await.is_err());
        if kills < 2 * SERVICES.len() && !watcher.has_ended {
            let mut cluster = cluster.lock().unwrap();
            cluster.kill(victim);
            cluster.start_again(victim);
            kills += 1;
        }
    }
    let url = cluster.lock().unwrap().url();
    let journal = Journal::read(
        &site
            .run(&["export", &watcher.session, "--server", &url])
            .out,
    );
    journal.check();
    watcher.check(&journal, "after kills");
    journal.check_like(&reference);
    let uses = site.ledger().uses();
    assert_eq!(uses.len(), ROUNDS as usize, "{uses:?}");
    assert!(
        uses.values().all(|&times| times == 1),
        "a call happened twice: {uses:?}"
    );
    let doubts = journal.of_kind("call_in_doubt").len();
    let continued = journal.of_kind("attempt_continued").len();
    println!("{kills} kills, {breaks} broken watches, {continued} continued, {doubts} in doubt");
    assert_eq!(
        kills,
        2 * SERVICES.len(),
        "the run was over before each was killed twice"
    );
}
